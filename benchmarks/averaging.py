"""What averages of weights know after so many steps: one training on Multi30k, by its recipe, with
several averages beside it.

    python benchmarks/averaging.py --root FOLDER          # prints averaging.md's tables
    python benchmarks/averaging.py --root FOLDER --warmup 200

BLEU (sacreBLEU, 13a), greedy, of every fourth sentence of the validation set.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning.pytorch as L
import torch
import yaml
from sacrebleu import corpus_bleu
from torch.optim.swa_utils import AveragedModel

import tfzoo

RECIPE = Path(__file__).resolve().parents[1] / "recipes/translation/multi30k.yaml"
DECAY = 0.995


def spanning(share: int) -> Callable[[int], float]:
    """The decay at each step of an average of the steps so far divided by ``share``, until it
    spans as many as :data:`DECAY` says.
    """
    return lambda n: min(DECAY, (1 + n) / (1 + share + n))


AVERAGES: dict[str, Callable[[int], float]] = {
    "decay 0.995 from the start": lambda n: DECAY,
    "the same, divided by `1 - 0.995^n`": lambda n: 1 - (1 - DECAY) / (1 - DECAY ** (n + 1)),
    **{f"n/{share}": spanning(share) for share in (4, 9, 19, 39)},
}
"""Averages, by their decay as a function of the steps before. ``optim.average`` is that of n/19."""


def moved(decay: Callable[[int], float]) -> Any:
    """How an average moves towards the weights of a step."""

    def move(averages: Any, weights: Any, n: Any) -> None:
        for average, weight in zip(averages, weights, strict=True):
            average.lerp_(weight, 1 - decay(int(n)))

    return move


class Averages(L.Callback):
    """Moves each average after each step, and prints a row of scores every ``every`` steps."""

    def __init__(self, data: Any, every: int) -> None:
        self.every = every
        self.source, self.target = zip(*data.sets["val"].lines[::4], strict=True)

    def on_fit_start(self, trainer: L.Trainer, task: Any) -> None:
        self.averages = [
            AveragedModel(task.model, multi_avg_fn=moved(decay)) for decay in AVERAGES.values()
        ]
        print("| step | last weights | " + " | ".join(AVERAGES) + " |")
        print("|---|---|" + "---|" * len(AVERAGES))

    def on_train_batch_end(self, trainer: L.Trainer, task: Any, *_: Any) -> None:
        for average in self.averages:
            average.update_parameters(task.model)
        if trainer.global_step % self.every:
            return
        models = [task.model, *(average.module for average in self.averages)]
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
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--warmup", type=int, help="steps; default: the recipe's")
    options = parser.parse_args()
    tfzoo.keep_freed_memory()
    torch.set_num_threads(1)
    recipe = yaml.safe_load(RECIPE.read_text("utf-8"))
    recipe["optim"].pop("average")
    recipe["seed"] = options.seed
    if options.warmup:
        recipe["optim"]["schedule"]["warmup"] = options.warmup
    data = tfzoo.TranslationData(**recipe["data"] | {"root": options.root, "seed": options.seed})
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
