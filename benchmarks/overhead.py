"""What `tfzoo fit` costs over a plain Lightning training of the same model on the same batches: seconds a step.

    python benchmarks/overhead.py --pairs 24      # prints the row of overhead.md

Ours is all that the command line puts around a training: the mean over all micro-batches and processes, the check that numbers are
finite, metrics.csv, signals, the watch over processes, resuming, safe checkpoints. Plain is a LightningModule of ten lines that returns
a mean loss and logs it, under a Trainer with a CSVLogger. Short trainings of the two alternate; the steps after the first ten count.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import lightning.pytorch as L
import torch
from lightning.pytorch.loggers import CSVLogger
from scipy import stats

import tfzoo
from tfzoo.commands.fit import FLAGS, prepare
from tfzoo.commands.packaged import find
from tfzoo.commands.recipe import split
from tfzoo.commands.training import Training
from tfzoo.commands.tree import read

WARM = 10
RECIPE = "translation/numbers"


class Clock(L.Callback):
    """Seconds of each step but the first few: from the end of one to the end of the next."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_train_batch_end(self, *_: object) -> None:
        self.ends.append(time.perf_counter())

    @property
    def per_step(self) -> float:
        return (self.ends[-1] - self.ends[WARM]) / (len(self.ends) - 1 - WARM)


class Plain(L.LightningModule):
    """The same model and loss as people write it."""

    def __init__(self, task: tfzoo.TranslationTask) -> None:
        super().__init__()
        self.model = task.model
        self.loss, self.optim = task.loss, task.optim

    def training_step(self, batch, batch_idx):
        smoothed, _, tokens = self.loss(batch)
        loss = smoothed / tokens
        self.log("train/loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self):
        return self.optim.configure(self.parameters(), max_steps=2**31)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=24)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    args = [RECIPE, "--trainer.max_steps", str(options.steps), "--trainer.limit_val_batches", "0", "--trainer.enable_progress_bar", "false"]
    path = find(RECIPE)
    job = prepare([(read(path), RECIPE)], split(args, FLAGS), False, path)
    data = job.task.Data(**job.recipe["data"], seed=1)
    data.prepare_data()
    data.setup("fit")
    seconds: dict[str, list[float]] = {"ours": [], "plain": []}
    for index in range(options.pairs):
        for name in ("ours", "plain") if index % 2 else ("plain", "ours"):
            with tempfile.TemporaryDirectory() as folder:
                seconds[name].append((ours if name == "ours" else plain)(job, data, Path(folder), options.steps))
    ratios = [a / b for a, b in zip(seconds["ours"], seconds["plain"], strict=True)]
    low, high = stats.t.interval(0.95, len(ratios) - 1, statistics.mean(ratios), stats.sem(ratios))
    print("| recipe | pairs | tfzoo fit, ms a step | plain Lightning, ms a step | slow-down (95 % interval) |\n|---|---|---|---|---|")
    median = {name: 1000 * statistics.median(values) for name, values in seconds.items()}
    change = f"{100 * statistics.mean(ratios) - 100:+.1f} % ({100 * low - 100:+.1f} to {100 * high - 100:+.1f})"
    print(f"| {RECIPE} | {options.pairs} | {median['ours']:.1f} | {median['plain']:.1f} | {change} |")


def ours(job, data, folder: Path, steps: int) -> float:
    task, clock = job.task.build(job.recipe, data.languages), Clock()
    training = Training(job, folder, task, data, [])
    training.trainer.callbacks.insert(0, clock)
    training.trainer.fit(task, datamodule=data)
    return clock.per_step


def plain(job, data, folder: Path, steps: int) -> float:
    task, clock = Plain(job.task.build(job.recipe, data.languages)), Clock()
    settings = {key: job.recipe["trainer"][key] for key in ("gradient_clip_val", "log_every_n_steps") if key in job.recipe["trainer"]}
    trainer = L.Trainer(
        max_steps=steps,
        logger=CSVLogger(folder),
        callbacks=[clock],
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
        limit_val_batches=0,
        **settings,
    )
    trainer.fit(task, data.train_dataloader())
    return clock.per_step


if __name__ == "__main__":
    main()
