"""What `explain: true` costs: seconds a step with it over seconds a step without.

    python benchmarks/explain.py --pairs 10     # prints the table

Short trainings with and without alternate. Seconds are those that the processor worked for this
process, on one thread, so that others on the machine do not count. Logging steps are as often as in
the recipe, and as often as in the sweeps over small models.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import lightning.pytorch as L
import torch
from scipy import stats

from tfzoo.config.config import Config
from tfzoo.config.recipe import read
from tfzoo.config.sources import load_recipe, parse_options
from tfzoo.training.train import TrainingRun

RECIPE = "translation/numbers"
CASES = {
    "as the recipe is": [],
    "as in `ablations/position`": [
        "--model.dim",
        "64",
        "--data.max_tokens",
        "512",
        "--trainer.log_every_n_steps",
        "25",
    ],
}


class Clock(L.Callback):
    """Seconds a step, from the end of the tenth to the end of the last."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_train_batch_end(self, *_: object) -> None:
        self.ends.append(time.process_time())

    @property
    def per_step(self) -> float:
        return (self.ends[-1] - self.ends[9]) / (len(self.ends) - 10)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=10)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(
        "| model | logged every | pairs | without, ms a step | with, ms a step | cost (95 % "
        "interval) |\n|---|---|---|---|---|---|"
    )
    for name, given in CASES.items():
        args = [
            *given,
            "--trainer.limit_val_batches",
            "0",
            "--trainer.enable_progress_bar",
            "false",
        ]
        given = parse_options([*args, "--trainer.max_steps", "110"])
        job = Config.parse(read(load_recipe(RECIPE), given))
        data = job.task.Data(**job.recipe["data"], seed=1)
        data.prepare_data()
        data.setup("fit")
        seconds: dict[bool, list[float]] = {False: [], True: []}
        for index in range(options.pairs):
            for explain in (False, True) if index % 2 else (True, False):
                seconds[explain].append(
                    trained(replace(job, recipe={**job.recipe, "explain": explain}), data)
                )
        ratios = [a / b for a, b in zip(seconds[True], seconds[False], strict=True)]
        low, high = stats.t.interval(
            0.95, len(ratios) - 1, statistics.mean(ratios), stats.sem(ratios)
        )
        median = {explain: 1000 * statistics.median(values) for explain, values in seconds.items()}
        cost = (
            f"{100 * statistics.mean(ratios) - 100:+.1f} % ({100 * low - 100:+.1f} to "
            f"{100 * high - 100:+.1f})"
        )
        every = job.recipe["trainer"]["log_every_n_steps"]
        print(
            f"| {name} | {every} | {options.pairs} | {median[False]:.1f} | {median[True]:.1f} | "
            f"{cost} |",
            flush=True,
        )


def trained(job, data) -> float:
    with tempfile.TemporaryDirectory() as folder:
        clock = Clock()
        task = job.task.build(job.recipe, data.tokenizers)
        trainer = TrainingRun(job, Path(folder), []).trainer
        trainer.callbacks.append(clock)
        trainer.fit(task, datamodule=data)
        return clock.per_step


if __name__ == "__main__":
    main()
