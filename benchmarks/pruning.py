"""False verdicts and coverage of simulated sweeps that prune, or that sample an axis.

    python benchmarks/pruning.py              # the table of docs/judging.md
    python benchmarks/pruning.py --sweeps 500

In no simulated sweep does anything matter: the score of a cell is an effect of the seed on all
cells (standard deviation 2) and noise of its own (standard deviation 1). At a rung it is the same
effect of the seed and noise that correlates with that of the end. Cells are pruned and judged by
the functions that ``tfzoo sweep`` uses, for a score of which lower is better.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any
from unittest.mock import patch

import numpy as np

from tfzoo.sweep.judge.verdicts import Verdicts, judge
from tfzoo.sweep.plan import layout, sample
from tfzoo.sweep.plan.sweep_file import Prune
from tfzoo.sweep.run.prune import rank

Axes = Mapping[str, Sequence[str]]
STEPS = 1000
CORRELATION = 0.9
DRAWN = [
    layout.label(one)
    for one in sample.draw("optim.lr", {"low": 1e-5, "high": 1e-1, "log": True, "count": 8})
]


@dataclass(frozen=True)
class World:
    """The cells of a sweep, its number of seeds, and how it prunes."""

    axes: Axes
    seeds: int
    prune: Prune | None


ONE = {"part": list("abcdefgh")}
MANY = {"part": list("abcdefghijklmnop")}
GRID = {"one": list("abc"), "other": list("xyz")}
WORLDS = {
    "8 cells, not pruned": World(ONE, 5, None),
    "8 cells, the best one kept at half": World(ONE, 5, Prune(0.5, 1)),
    "16 cells, 10 seeds, the best one kept at half": World(MANY, 10, Prune(0.5, 1)),
    "8 cells, halved at 1/4 and 1/2": World(ONE, 5, Prune(0.25, 0.5)),
    "3 x 3 cells, not pruned": World(GRID, 5, None),
    "3 x 3 cells, halved at 1/4 and 1/2": World(GRID, 5, Prune(0.25, 0.5)),
    "3 x 3 cells, 7 kept at half": World(GRID, 5, Prune(0.5, 7)),
    "8 sampled values, not pruned": World({"optim.lr": DRAWN}, 5, None),
    "8 sampled values, halved at 1/4 and 1/2": World({"optim.lr": DRAWN}, 5, Prune(0.25, 0.5)),
}


def simulate(world: World, sweeps: int, seed: int = 0) -> Iterator[Verdicts]:
    """The verdicts of simulated sweeps."""
    random = np.random.default_rng(seed)
    settings = list(product(*world.axes.values()))
    shape = (len(settings), world.seeds)
    # How many seeds more would be needed takes longer than all the rest.
    with patch("tfzoo.sweep.judge.sentences.more_seeds", lambda *_: ""):
        for _ in range(sweeps):
            shared, noise = 2 * random.standard_normal(world.seeds), random.standard_normal(shape)
            gone: dict[str, int] = {}
            for rung in world.prune.rungs(STEPS) if world.prune else ():
                other = random.standard_normal(shape)
                early = shared + CORRELATION * noise + (1 - CORRELATION**2) ** 0.5 * other
                left = [place for place in range(1, len(settings)) if str(place) not in gone]
                order = rank({str(place): float(early[place].mean()) for place in left}, "min")
                kept = world.prune.kept(len(left)) if world.prune else 0
                gone |= dict.fromkeys(order[kept:], rung)
            rows: list[dict[str, Any]] = []
            for place, labels in enumerate(settings):
                status = "pruned" if str(place) in gone else "completed"
                rows += [
                    {
                        **dict(zip(world.axes, labels, strict=True)),
                        "seed": s,
                        "status": status,
                        "y": y,
                    }
                    for s, y in enumerate(shared + noise[place])
                ]
            yield judge(rows, world.axes, {}, "y", "min")


def measure(world: World, sweeps: int, seed: int = 0) -> tuple[float, float]:
    """The share of sweeps with a false verdict, and of intervals that contain 0."""
    false, holds = 0, []
    for found in simulate(world, sweeps, seed):
        everything = [*found.cells, *found.axes]
        false += any(one.verdict in ("better", "worse") for one in everything)
        holds += [
            one.difference_low <= 0 <= one.difference_high
            for one in everything
            if one.difference_low is not None and one.difference_high is not None
        ]
    return false / sweeps, float(np.mean(holds))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sweeps", type=int, default=5000)
    given = parser.parse_args()
    print("| no true difference, 5 seeds | sweeps with a false verdict | coverage |\n|---|---|---|")
    for name, world in WORLDS.items():
        rate, coverage = measure(world, given.sweeps)
        print(f"| {name} | {100 * rate:.1f} % | {100 * coverage:.1f} % |")
