"""What averages of weights know after so many steps: one training on Multi30k, by its recipe, with
several averages beside it.

    python benchmarks/averaging.py --root FOLDER          # prints averaging.md's table

BLEU (sacreBLEU, 13a), greedy, of every fourth sentence of the validation set.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import lightning.pytorch as L
import torch
import yaml
from sacrebleu import corpus_bleu
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import tfzoo
from tfzoo.learning.weight_averaging import WarmupEMA

RECIPE = Path(__file__).resolve().parents[1] / "recipes/translation/multi30k.yaml"
DECAY = 0.995


class Averages(L.Callback):
    """Moves each average after each step, and prints a row of scores every ``every`` steps."""

    def __init__(self, data: Any, every: int) -> None:
        self.every = every
        self.source, self.target = zip(*data.sets["val"].lines[::4], strict=True)
        self.warm = WarmupEMA(DECAY)

    def on_fit_start(self, trainer: L.Trainer, task: Any) -> None:
        self.averages = {
            "`average: 0.995`": AveragedModel(task.model, multi_avg_fn=self.warm.move),
            "decay 0.995 from the start": AveragedModel(
                task.model, multi_avg_fn=get_ema_multi_avg_fn(DECAY)
            ),
            "the same, divided by `1 - 0.995^n`": AveragedModel(
                task.model, multi_avg_fn=self.debiased
            ),
        }
        print("| step | last weights | " + " | ".join(self.averages) + " |")
        print("|---|---|" + "---|" * len(self.averages))

    def debiased(self, averages: Any, weights: Any, n: Any) -> None:
        share = (1 - DECAY) / (1 - DECAY ** (int(n) + 1))
        for average, weight in zip(averages, weights, strict=True):
            average.lerp_(weight, share)

    def on_train_batch_end(self, trainer: L.Trainer, task: Any, *_: Any) -> None:
        self.warm.should_update(step_idx=trainer.global_step - 1)
        for average in self.averages.values():
            average.update_parameters(task.model)
        if trainer.global_step % self.every:
            return
        models = [task.model, *(average.module for average in self.averages.values())]
        scores = []
        for model in models:
            task.model = model.eval()
            found = task.translate(self.source)
            scores.append(corpus_bleu(found, [list(self.target)]).score)
        task.model = models[0].train()
        cells = " | ".join(f"{score:.1f}" for score in scores)
        print(f"| {trainer.global_step} | {cells} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--root", required=True)
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--every", type=int, default=100)
    options = parser.parse_args()
    tfzoo.keep_freed_memory()
    torch.set_num_threads(1)
    recipe = yaml.safe_load(RECIPE.read_text("utf-8"))
    recipe["optim"].pop("average")
    data = tfzoo.TranslationData(**recipe["data"] | {"root": options.root})
    data.prepare_data()
    data.setup()
    task = tfzoo.TranslationTask.build(
        {key: recipe[key] for key in ("seed", "model", "optim", "search")}, data.tokenizers
    )
    trainer = L.Trainer(
        accelerator="cpu",
        max_steps=options.steps,
        gradient_clip_val=recipe["trainer"]["gradient_clip_val"],
        limit_val_batches=0,
        callbacks=[Averages(data, options.every)],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(task, datamodule=data)


if __name__ == "__main__":
    main()
