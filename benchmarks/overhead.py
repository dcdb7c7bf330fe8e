"""What `tfzoo fit` costs over a plain Lightning training of the same model on the same batches:
seconds a step.

    OMP_NUM_THREADS=2 python benchmarks/overhead.py --write      # writes overhead.md, in about 5
    minutes of a quiet machine

Ours is all that the command line puts around a training: the mean over all micro-batches and
processes, the check that numbers are finite, metrics.csv, signals, the watch over processes,
resuming, safe checkpoints. Plain is a LightningModule of ten lines that returns a mean loss and
logs it, under a Trainer with a CSVLogger. Both clip alike, log as often, show no bar, and write no
checkpoint while the
clock runs. Two trainings stand side by side in one process and train in turns, 5 steps each: a pair
is one turn of each, over the same batches, which of them comes first alternates. What else slows
the machine so hits both. The first pair does not count. The slow-down is the geometric mean of the
pairs' ratios, its interval Student's t on their logarithms: a ratio's plain mean grows with the
noise alone.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

import lightning
import lightning.pytorch as L
import torch
from lightning.pytorch.loggers import CSVLogger
from scipy import stats

import tfzoo
from tfzoo.config.config import Config
from tfzoo.config.recipe import read
from tfzoo.config.sources import load_recipe, parse_options
from tfzoo.training.train import TrainingRun

TURN = 5
NAMES = ("ours", "plain")
CLOCKS = {"wall": time.perf_counter, "cpu": time.thread_time}


class Turns:
    """Who trains now: ``ours plain plain ours ours plain ...``, a turn of steps each."""

    def __init__(self, pairs: int) -> None:
        self.order = [
            name for pair in range(pairs) for name in (NAMES if pair % 2 == 0 else NAMES[::-1])
        ]
        self.place = 0
        self.changed = threading.Condition()

    def wait(self, name: str) -> None:
        with self.changed:
            self.changed.wait_for(
                lambda: self.place >= len(self.order) or self.order[self.place] == name
            )

    def end(self) -> None:
        with self.changed:
            self.place += 1
            self.changed.notify_all()


class Clock(L.Callback):
    """Seconds of each turn of one training; it is the last to hear of a step's end."""

    def __init__(self, name: str, turns: Turns, now) -> None:
        self.name, self.turns, self.now = name, turns, now
        self.seconds: list[float] = []

    def on_train_start(self, *_: object) -> None:
        self._begin()

    def on_train_batch_end(self, trainer: L.Trainer, *_: object) -> None:
        if trainer.global_step % TURN == 0:
            self.seconds.append(self.now() - self.since)
            self.turns.end()
            self._begin()

    def _begin(self) -> None:
        self.turns.wait(self.name)
        self.since = self.now()


class Plain(L.LightningModule):
    """The same model and loss as people write it."""

    def __init__(self, task: tfzoo.TranslationTask, steps: int) -> None:
        super().__init__()
        self.model, self.steps = task.model, steps
        self.loss, self.optim = task.loss, task.optim

    def training_step(self, batch, batch_idx):
        smoothed, _, tokens = self.loss(batch)
        loss = smoothed / tokens
        self.log("train/loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self):
        return self.optim.configure(self.model, max_steps=self.steps)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--recipe", default="translation/numbers")
    parser.add_argument("--pairs", type=int, default=300)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--clock",
        choices=CLOCKS,
        default="wall",
        help="cpu: of one thread; for a machine that is busy, with --threads 1",
    )
    parser.add_argument("--write", action="store_true", help="overhead.md beside this script")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    seconds = measure(options)
    ratios = [
        math.log(ours / plain)
        for ours, plain in zip(*(seconds[name] for name in NAMES), strict=True)
    ]
    mean = statistics.mean(ratios)
    slower, low, high = (
        100 * math.expm1(x)
        for x in (mean, *stats.t.interval(0.95, len(ratios) - 1, mean, stats.sem(ratios)))
    )
    ours, plain = (f"{1000 * statistics.median(seconds[name]) / TURN:.1f}" for name in NAMES)
    change = f"{slower:+.1f} % ({low:+.1f} to {high:+.1f})"
    table = (
        f"| recipe | pairs of {TURN} steps | tfzoo fit, ms a step | plain Lightning, ms a step | "
        "slow-down (95 % interval) |\n"
        "|---|---|---|---|---|\n"
        f"| {options.recipe} | {len(ratios)} | {ours} | {plain} | {change} |\n"
    )
    print(table, end="")
    if options.write:
        Path(__file__).with_suffix(".md").write_text(
            PAGE.format(table=table, turn=TURN, **vars(options), **versions()), "utf-8"
        )


PAGE = """\
# What `tfzoo fit` costs over plain Lightning

The same model on the same batches, in turns of {turn} steps within one process; {threads} threads;
torch {torch}, Lightning {lightning}.

    {command}

{table}"""


def versions() -> dict[str, str]:
    command = f"python benchmarks/{Path(__file__).name} {' '.join(sys.argv[1:])}"
    return {"torch": torch.__version__, "lightning": lightning.__version__, "command": command}


def measure(options: argparse.Namespace) -> dict[str, list[float]]:
    """Seconds of each turn, by training."""
    steps = TURN * (options.pairs + 1)
    args = [
        "--trainer.max_steps",
        str(steps),
        "--trainer.limit_val_batches",
        "0",
        "--trainer.enable_progress_bar",
        "false",
    ]
    args += ["--trainer.accelerator", "cpu", "--trainer.log_every_n_steps", "20"]
    job = Config.parse(read(load_recipe(options.recipe), parse_options(args)))
    data = job.task.Data(**job.recipe["data"], seed=1)
    data.prepare_data()
    data.setup("fit")
    turns = Turns(options.pairs + 1)
    clocks = {name: Clock(name, turns, CLOCKS[options.clock]) for name in NAMES}
    with tempfile.TemporaryDirectory() as folder:
        fits = [
            ours(job, data, Path(folder, "ours"), clocks["ours"]),
            plain(job, data, Path(folder, "plain"), clocks["plain"]),
        ]
        threads = [threading.Thread(target=run, args=(fit, turns, options.threads)) for fit in fits]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return {name: clocks[name].seconds[1:] for name in NAMES}


def run(fit, turns: Turns, threads: int) -> None:
    torch.set_num_threads(threads)  # of this thread
    try:
        fit()
    finally:
        while turns.place < len(turns.order):  # where it failed, the other must not wait for ever
            turns.end()


def ours(job, data, folder: Path, clock: Clock):
    folder.mkdir()
    task = job.task.build(job.recipe, getattr(data, job.task.tokenizer_of_data))
    trainer = TrainingRun(job, folder, []).trainer
    trainer.callbacks.append(clock)
    return lambda: trainer.fit(task, datamodule=data)


def plain(job, data, folder: Path, clock: Clock):
    settings = job.recipe["trainer"]
    same = {
        key: settings[key]
        for key in ("gradient_clip_val", "log_every_n_steps", "max_steps", "accelerator")
        if key in settings
    }
    off = {
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "enable_checkpointing": False,
        "use_distributed_sampler": False,
    }
    trainer = L.Trainer(
        logger=CSVLogger(folder), callbacks=[clock], limit_val_batches=0, **same, **off
    )
    task = Plain(
        job.task.build(job.recipe, getattr(data, job.task.tokenizer_of_data)), settings["max_steps"]
    )
    return lambda: trainer.fit(task, data.train_dataloader())


if __name__ == "__main__":
    main()
