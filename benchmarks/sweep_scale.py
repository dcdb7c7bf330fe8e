"""What a large sweep takes besides training: checking its cells, reading its state, its report.

    python -m benchmarks.sweep_scale                # 1,000 cells with 3 seeds each
    python -m benchmarks.sweep_scale --cells 100

The runs are made up: the files of 3,000 finished trainings, with nothing trained.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import yaml

from tests.sweep.made import make
from tfzoo.sweep.plan.load import load
from tfzoo.sweep.plan.sweep_file import Plan
from tfzoo.sweep.report import publish
from tfzoo.sweep.report.results import gather
from tfzoo.sweep.run import state
from tfzoo.sweep.run.runs_csv import SweepFolder

Found = TypeVar("Found")
SEEDS = (1, 2, 3)
WIDTH = 10
"""Values of each axis but the last."""


def timed(words: str, call: Callable[[], Found]) -> Found:
    """Call a function, print what it took, and return its result."""
    wall, used = time.perf_counter(), time.process_time()
    found = call()
    wall, used = time.perf_counter() - wall, time.process_time() - used
    print(f"{words:<48}{wall:7.1f} s, {used:6.1f} s of CPU")
    return found


def sweep_file(folder: Path, cells: int) -> Path:
    """A sweep over the dropout and the learning rate of models with two norms."""
    tree = {
        "recipe": "translation/numbers",
        "axes": {
            "model.norm": ["layer", "rms"],
            "model.dropout": [round(0.01 * index, 2) for index in range(WIDTH)],
            "optim.lr": [round(1e-5 * (index + 1), 5) for index in range(cells // (2 * WIDTH))],
        },
        "seeds": list(SEEDS),
        "budget": {"steps": 300},
        "metric": {"name": "val/loss", "mode": "min"},
    }
    path = folder / "large.yaml"
    path.write_text(yaml.safe_dump(tree, sort_keys=False))
    return path


def statuses(plan: Plan, folder: Path) -> list[str]:
    """The status of every run."""
    return [state.status(run) for run in state.planned_runs(plan, folder)]


def finished(folder: Path, cells: int) -> SweepFolder:
    """A sweep's folder with the files of all its runs."""
    norms = ("layer", *(f"norm{index}" for index in range(cells // WIDTH - 1)))
    positions = ("sinusoidal", *(f"position{index}" for index in range(WIDTH - 1)))
    return SweepFolder.open(make(folder, SEEDS, norms, positions))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cells", type=int, default=1000, help="a multiple of 20")
    cells = parser.parse_args().cells
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        load(sweep_file(top, 2 * WIDTH))  # imports what all need
        plan = timed(f"checking {cells:,} cells", lambda: load(sweep_file(top, cells)))
        made = finished(top / "large", cells)
        for cell in plan.cells:
            for seed in SEEDS:
                (top / "state" / cell.name / f"seed-{seed}").mkdir(parents=True)
        timed(f"status of {3 * cells:,} runs", lambda: statuses(plan, top / "state"))
        timed("report of both metrics", lambda: publish(gather(made.path)))
        for file in ("report.html", "report.md", "runs.csv"):
            print(f"{file:<48}{(made.path / file).stat().st_size / 1000:7.0f} kB")


if __name__ == "__main__":
    main()
