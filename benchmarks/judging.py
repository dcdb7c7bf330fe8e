"""How often the verdicts of simulated sweeps are wrong, and how often they find what is there.

    python -m benchmarks.judging > benchmarks/judging.md    # 20,000 sweeps a line
    python -m benchmarks.judging --sweeps 1000 --seeds 5

The score of a run is an effect of its seed on all cells (standard deviation 2) and noise of its own
(standard deviation 1), in the worlds below; higher is better. Of each sweep the first cell is the
baseline. Its verdicts are those of ``tfzoo.sweep.judge``: its tests, Holm's correction and the rule
that a verdict stands with and without the runs that diverged; only the loop over sweeps is here.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from tfzoo.sweep.judge.diverged import boschloo
from tfzoo.sweep.judge.paired import (
    ALPHA,
    answers,
    equivalence,
    has_variance,
    holm,
    interval,
    standing,
)
from tfzoo.sweep.judge.sentences import shapes
from tfzoo.sweep.judge.sequential import FIRST

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Draw = Callable[[np.random.Generator, tuple[int, ...]], Floats]
SEEDS, CELLS = (3, 5, 10), (1, 3, 8)
EVERY = tuple(range(FIRST, 11))
MARGIN = 1.0
"""The declared margin; where there is an effect, all cells are worse than the baseline by it."""
CHANCE = -12.0
"""The score of a run that diverged."""
RELATED = 0.85
"""The correlation of a healthy run's score with what decides whether it is marked."""


def normal(random: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    return random.standard_normal(shape)


def unequal(random: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    return normal(random, shape) * np.linspace(1, 4, shape[1])[:, None]


def skewed(random: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """The baseline's noise is exponential, that of the others a quarter as large."""
    noise = normal(random, shape) / 4
    noise[:, 0] = 1 - random.exponential(size=noise[:, 0].shape)
    return noise


def rare(random: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """A tenth of the baseline's runs is worse by 6; all have the same mean."""
    noise = normal(random, shape)
    noise[:, 0] -= 6.0 * ((random.random(noise[:, 0].shape) < 0.1) - 0.1)
    return noise


def correlated(random: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """The runs of the baseline have a correlation of 0.3 over seeds."""
    noise = normal(random, shape)
    noise[:, 0] = 0.7**0.5 * noise[:, 0] + 0.3**0.5 * normal(random, (shape[0], 1))
    return noise


@dataclass(frozen=True)
class World:
    """Noise, and which runs are marked as diverged.

    Attributes:
        rate: of the runs of these cells, this share is marked.
        marks: whether these are ``healthy`` runs of all cells but the baseline, the more often the
            worse their score is; or really diverged, in ``all`` cells, or in ``one``, whose other
            runs equal the baseline's, or whose ``mean`` over all runs does.
        seen: whether only sweeps in which a run of that cell diverged are counted.
        step: to a multiple of which scores are rounded.
        looks, plain: the declared looks, and those of the column "today".
    """

    draw: Draw = normal
    rate: float = 0.0
    marks: str = ""
    seen: bool = False
    step: float = 0.0
    looks: tuple[int, ...] = ()
    plain: tuple[int, ...] = ()


RATES = (0.1, 0.2, 0.5)
WORLDS = {
    "normal": World(),
    "standard deviations from 1 to 4": World(unequal),
    "looks at 5 and 10 (at each from 3 to 10)": World(looks=(5, 10), plain=EVERY),
    **{f"{r:.0%} of healthy runs marked": World(rate=r, marks="healthy") for r in (0.2, 0.5)},
    **{f"{r:.0%} diverge in all cells": World(rate=r, marks="all") for r in RATES},
    **{f"{r:.0%} diverge in one cell": World(rate=r, marks="one") for r in RATES},
    **{
        f"{r:.0%} diverge in one cell of equal mean{', seen' * seen}": World(
            rate=r, marks="mean", seen=seen
        )
        for r in RATES
        for seen in (False, True)
    },
    "rounded to half a standard deviation": World(step=0.5),
    "rounded to standard deviations": World(step=1.0),
    "the baseline is skewed": World(skewed),
    "the baseline has rare bad runs": World(rare),
    "the baseline's seeds are correlated": World(correlated),
}


def simulate(
    world: World, sweeps: int, cells: int, seeds: int, effect: float = 0.0
) -> tuple[Floats, Bools]:
    """Scores and which runs are marked, ``(sweeps, cells, seeds)`` with the baseline's first."""
    random = np.random.default_rng([seeds, cells, int(effect != 0)])
    shape = sweeps, cells + 1, seeds
    noise = world.draw(random, shape)
    y = 2 * normal(random, (sweeps, 1, seeds)) + noise
    y[:, 1:] += effect
    marked = np.zeros(shape, bool)
    if world.marks == "healthy":
        reason = RELATED * noise + (1 - RELATED**2) ** 0.5 * normal(random, shape)
        marked[:, 1:] = reason[:, 1:] < NormalDist().inv_cdf(world.rate)
    elif world.marks:
        which = slice(None) if world.marks == "all" else slice(1, 2)
        marked[:, which] = random.random(y[:, which].shape) < world.rate
        if world.marks == "mean":
            y[:, 1] += world.rate * (effect - CHANCE) / (1 - world.rate)
        y[marked] = CHANCE
    return np.round(y / world.step) * world.step if world.step else y, marked


def tests(d: Floats, kept: Bools, scale: Floats, looks: tuple[int, ...]) -> list[Floats]:
    """p, p of equivalence and the sign of each comparison over the pairs that are kept,
    ``(sweeps, comparisons)``; NaN without a test.
    """
    d = np.take_along_axis(d, np.argsort(~kept, -1, kind="stable"), -1)
    found = [np.full(d.shape[:2], np.nan) for _ in range(3)]
    pairs = kept.sum(-1)
    for count in range(FIRST, d.shape[-1] + 1):
        used = max((look for look in looks if look <= count), default=0) if looks else count
        at = (pairs == count) & has_variance(d[..., :used], scale) if used else pairs < 0
        if at.any():
            test = interval(d[at][:, :used], looks=looks)
            same = equivalence(d[at][:, :used], MARGIN, looks)
            for place, values in zip(found, (test.p, same, test.sign), strict=True):
                place[at] = values
    return found


def verdicts(world: World, y: Floats, marked: Bools) -> tuple[Floats, Floats]:
    """The answers without the marked runs alone, and those that stand: 1 and -1 for better and
    worse, 0 for equivalent, else NaN.
    """
    d, gone = y[:, 1:] - y[:, :1], marked[:, 1:] | marked[:, :1]
    scale = np.maximum(np.abs(y[:, 1:]), np.abs(y[:, :1])).max(-1)
    every = tests(d, np.ones_like(gone), scale, world.looks)
    without = tests(d, ~gone, scale, world.looks) if gone.any() else every
    counted = ~np.isnan(every[0]) | ~np.isnan(without[0])
    both = [
        answers(*(holm(np.where(counted, np.nan_to_num(p, nan=1.0), np.nan)) for p in ps), sign)
        for *ps, sign in (every, without)
    ]
    *ps, sign = tests(d, ~gone, scale, world.plain) if world.plain else without
    return answers(*map(holm, ps), sign), standing(*both)


def shares(world: World, sweeps: int, cells: int, seeds: int) -> list[tuple[float, float]]:
    """Of sweeps without an effect, how many call a cell better or worse; of those with one, how
    many call a cell equivalent, and how many find that the first is worse. Each of the answers
    without the marked runs, and of those that stand.
    """
    lines = []
    for effect in (0.0, -MARGIN):
        y, marked = simulate(world, sweeps, cells, seeds, effect)
        if world.seen:
            seen = marked.any((1, 2))
            y, marked = y[seen], marked[seen]
        lines.append(verdicts(world, y, marked))
    false, found = lines
    return [
        tuple((np.abs(one) == 1).any(1).mean() for one in false),
        tuple((one == 0).any(1).mean() for one in found),
        tuple((one[:, 0] == -1).mean() for one in found),
    ]


def head(title: str, columns: Sequence[str]) -> None:
    """The head of a table."""
    print(f"\n{title}\n\n| | {' | '.join(columns)} |\n|---|{'---:|' * len(columns)}")


def row(name: str, line: Sequence[str]) -> None:
    """A line of a table."""
    print(f"| {name} | {' | '.join(line)} |", flush=True)


def tables(sweeps: int, seeds: Sequence[int]) -> None:
    """One line a world: the highest of all numbers of cells."""
    what = ("false", "equivalent", "power")
    found = {
        (name, count): 100
        * np.array([shares(world, sweeps, cells, count) for cells in CELLS]).swapaxes(0, 1)
        for name, world in WORLDS.items()
        for count in seeds
        if not world.looks or count == world.looks[-1]
    }

    def shown(name: str, at: int, pair: Floats) -> str:
        if what[at] == "power" and WORLDS[name].marks == "mean":
            return "–"  # its healthy runs are better
        both = WORLDS[name].marks or WORLDS[name].plain
        return " / ".join(f"{one:.1f}" for one in (pair if both else pair[1:]))

    head(
        "**The highest of 1, 3 and 8 cells** beside the baseline; power with 1 cell; in %",
        [f"{one}, {count} seeds" for one in what for count in seeds],
    )
    for name in WORLDS:
        line = []
        for at, count in product(range(3), seeds):
            if (name, count) in found:
                pairs = found[name, count][at]
                line.append(shown(name, at, pairs[0] if what[at] == "power" else pairs.max(0)))
            else:
                line.append("")
        row(name, line)


def rates(sweeps: int, seeds: Sequence[int]) -> None:
    """Whether cells differ in how often they diverge: of sweeps in which they do not, how many say
    so of some cell, and in which one alone diverges, how many say it of that.
    """
    columns = [f"{count} seeds, {cells}" for count in seeds for cells in CELLS]
    head("**How often runs diverge**: said to differ, 1, 3, 8 cells, in %", columns)
    for name, world in WORLDS.items():
        if world.marks in ("all", "one"):
            line = []
            for count in seeds:
                for cells in CELLS:
                    gone = simulate(world, sweeps, cells, count)[1].sum(-1)
                    p = np.full((count + 1, count + 1), np.nan)
                    for a, b in np.ndindex(p.shape):
                        p[a, b] = boschloo((a, count), (b, count)) if a + b else np.nan
                    said = holm(p[gone[:, 1:], gone[:, :1]]) < ALPHA
                    line.append((said.any(1) if world.marks == "all" else said[:, 0]).mean())
            row(name, [f"{100 * one:.1f}" for one in line])


def levels(sweeps: int, seeds: Sequence[int]) -> None:
    """Of ten times as many sweeps, of one comparison without an effect: how many have a note on
    their scores, and of these, how many have a false verdict.
    """
    kinds = ("discrete", "outlier", "skewed")
    columns = [f"{kind}, {count} seeds" for count in seeds for kind in kinds]
    head("**Scores with a note**: false verdicts of these, one comparison, in %", columns)
    for name, world in WORLDS.items():
        if not world.marks and not world.looks:
            line = []
            for count in seeds:
                y, marked = simulate(world, 10 * sweeps, 1, count)
                false = np.abs(verdicts(world, y, marked)[1][:, 0]) == 1
                scale = np.abs(y).max((1, 2))
                d = y[:, 1] - y[:, 0]
                tested = has_variance(d, scale)
                noted = shapes(d[tested], scale[tested])
                for kind in kinds:
                    has = noted[kind]
                    wrong = f"{100 * false[tested][has].mean():.1f}" if has.sum() >= 100 else "–"
                    line.append(f"{100 * has.mean():.1f}: {wrong}")
            row(name, line)


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sweeps", type=int, default=20_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    given = parser.parse_args()
    tables(given.sweeps, given.seeds)
    rates(given.sweeps, given.seeds)
    levels(given.sweeps, given.seeds)


if __name__ == "__main__":
    main()
