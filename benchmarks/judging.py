"""How often the verdicts of simulated sweeps are wrong, judged once and while they grow.

    python -m benchmarks.judging                 # the tables of docs/judging.md; 13 s of CPU
    python -m benchmarks.judging --sweeps 2000

Each simulated sweep has five cells, the first of them the baseline: four comparisons with Holm's
correction. The score of a cell is an effect of the seed on all cells (standard deviation 2) and
noise of its own, in the worlds below; no cell has an effect unless a column says so. Judged once, a
sweep has 3, 5 or 10 seeds. While it grows, it is judged at each number of seeds from 3 to 20: by
the t test of one look ("plain"), and by the bounds of a sweep that declared all these looks
("declared"). A run that diverges scores 12 more; "plain" averages it with the others, as 0.2 did.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from tfzoo.sweep.judge import sequential
from tfzoo.sweep.judge.paired import ALPHA, critical, holm

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, tuple[int, ...]], Floats]
CELLS, ONCE, MOST = 5, (3, 5, 10), 20
DIVERGES, SIZE = 0.2, 12.0
LOOKS = tuple(range(sequential.FIRST, MOST + 1))
EFFECT = 2.0
"""Of the second cell, in standard deviations of its noise, where power is measured."""


def normal(random: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    return random.standard_normal(shape)


def heavy(random: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    return random.standard_t(2, shape)


def unequal(random: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    spread = np.array([1, 1.75, 2.5, 3.25, 4])
    return random.standard_normal(shape) * spread[:, None]


def skewed(random: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    return random.exponential(size=shape) - 1


def one_skewed(random: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    noise = random.standard_normal(shape) / 4
    noise[:, 0] = random.exponential(size=noise[:, 0].shape) - 1
    return noise


@dataclass(frozen=True)
class World:
    """Noise, and whether the second cell diverges in a fifth of its runs."""

    draw: Draw
    diverges: bool = False


WORLDS = {
    "normal": World(normal),
    "t with 2 degrees of freedom": World(heavy),
    "standard deviation from 1 to 4": World(unequal),
    "both sides skewed (exponential)": World(skewed),
    "one cell diverges in 20 % of its runs": World(normal, diverges=True),
    "the baseline alone is skewed": World(one_skewed),
}


def simulate(
    world: World, sweeps: int, seeds: int, effect: float = 0.0
) -> tuple[Floats, NDArray[np.bool_]]:
    """Differences to the baseline, ``(sweeps, comparisons, seeds)``, and which runs diverged."""
    random = np.random.default_rng([seeds, round(100 * effect)])
    shared = 2 * random.standard_normal((sweeps, 1, seeds))
    y = shared + world.draw(random, (sweeps, CELLS, seeds))
    y[:, 1] += effect
    gone = np.zeros((sweeps, CELLS - 1, seeds), bool)
    if world.diverges:
        gone[:, 0] = random.random((sweeps, seeds)) < DIVERGES
    return y[:, 1:] - y[:, :1] + SIZE * gone, gone


@dataclass(frozen=True)
class Looks:
    """The t statistic, its standard error and the number of pairs at each look."""

    mean: Floats
    error: Floats
    pairs: NDArray[np.int64]

    def each(self, values: Callable[[Floats, int], Floats]) -> Floats:
        """A function of t and of the number of pairs; NaN with fewer than 3 pairs."""
        found = np.full(self.mean.shape, np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            t = self.mean / self.error
        for count in np.unique(self.pairs[self.pairs >= sequential.FIRST]):
            there = self.pairs == count
            found[there] = values(t[there], int(count))
        return found


def looks(d: Floats, gone: NDArray[np.bool_], at: list[int]) -> Looks:
    """Each look sees the pairs whose run did not diverge."""
    kept = np.where(gone, 0.0, d)
    n = np.cumsum(~gone, -1)[..., np.array(at) - 1]
    total, squares = (np.cumsum(kept**power, -1)[..., np.array(at) - 1] for power in (1, 2))
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = total / n
        error = np.sqrt(np.maximum(squares - n * mean**2, 0.0) / (n - 1) / n)
    return Looks(mean, error, n)


def plain(t: Floats, pairs: int) -> Floats:
    return np.asarray(2 * stdtr(pairs - 1, -np.abs(t)))


def declared(t: Floats, pairs: int) -> Floats:
    return sequential.p_value(t, pairs, LOOKS)


def false_alarms(found: Looks, p_value: Callable[[Floats, int], Floats]) -> float:
    """The share of sweeps in which some comparison has a verdict at some look."""
    p = np.moveaxis(np.nan_to_num(found.each(p_value), nan=1.0), 1, -1)
    return float((holm(p) < ALPHA).any((1, 2)).mean())


def coverage(found: Looks, at: tuple[int, ...]) -> float:
    """The lowest share, over comparisons, of sweeps whose intervals hold 0 at every look."""
    reach = found.each(lambda t, pairs: np.full(t.shape, critical(ALPHA, pairs, at)))
    missed = np.abs(found.mean) > reach * found.error
    return float(1 - missed.any(-1).mean(0).max())


def power(found: Looks, p_value: Callable[[Floats, int], Floats]) -> float:
    """The share of sweeps that have a verdict on the second cell at the last look."""
    p = np.nan_to_num(found.each(p_value)[..., -1], nan=1.0)
    return float((holm(p)[:, 0] < ALPHA).mean())


def rows(sweeps: int, seeds: list[int], tests: dict[str, tuple[tuple[int, ...], bool]]) -> None:
    """A line a world: false alarms and coverage of each test."""
    print(f"| | {' | '.join(f'{name}: false alarms | coverage' for name in tests)} |")
    print("|---|" + "---:|---:|" * len(tests))
    for name, world in WORLDS.items():
        d, gone = simulate(world, sweeps, seeds[-1])
        line = []
        for at, drops in tests.values():
            found = looks(d, gone if drops else np.zeros_like(gone), seeds)
            p_value = declared if at else plain
            # Over all runs, the mean of a cell that diverges is not 0, and no verdict is false.
            known = drops or not world.diverges
            alarms = f"{100 * false_alarms(found, p_value):.1f} %" if known else "–"
            line += [alarms, f"{100 * coverage(found, at):.1f} %" if known else "–"]
        print(f"| {name} | {' | '.join(line)} |")


def widths() -> None:
    """Half the width of an interval, beside that of one look, at each number of seeds."""
    counts = (3, 5, 7, 10, 15, 20)
    print(f"| looks | {' | '.join(f'{count} seeds' for count in counts)} |")
    print("|---|" + "---:|" * len(counts))
    every = {f"each from 3 to {most}": (*range(3, most + 1),) for most in (10, 20, 40)}
    for name, at in {"5 and 10": (5, 10), "5, 10, 20": (5, 10, 20), **every}.items():
        line = [
            f"{critical(ALPHA, count, at) / critical(ALPHA, count):.2f}" if count in at else ""
            for count in counts
        ]
        print(f"| {name} | {' | '.join(line)} |")


def powers(sweeps: int) -> None:
    """Power at the last look."""
    print(f"| effect of {EFFECT:g} | {' | '.join(f'{count} seeds' for count in (*ONCE, MOST))} |")
    print("|---|" + "---:|" * (len(ONCE) + 1))
    for name, p_value in (("judged once", plain), (f"declared, each look to {MOST}", declared)):
        line = []
        for count in (*ONCE, MOST):
            d, gone = simulate(WORLDS["normal"], sweeps, count, EFFECT)
            line.append(f"{100 * power(looks(d, gone, [count]), p_value):.0f} %")
        print(f"| {name} | {' | '.join(line)} |")


def called(found: Looks) -> Floats:
    """-1 and 1 where the first comparison is worse or better at the last look, else 0."""
    p = np.nan_to_num(found.each(plain)[:, 0, -1], nan=1.0)
    return np.where(p < ALPHA, np.sign(found.mean[:, 0, -1]), 0.0)


def diverging(sweeps: int) -> None:
    """A cell whose mean over all runs is the baseline's, because it diverges in a fifth of them:
    how often it is called better or worse with all its runs, without those that diverged, and where
    both agree; and that of sweeps in which a run diverged.
    """
    print("| seeds | all runs | without those that diverged | both agree | of which with one |")
    print("|---|---:|---:|---:|---:|")
    for count in ONCE:
        d, gone = simulate(WORLDS["one cell diverges in 20 % of its runs"], sweeps, count)
        shifted = d[:, :1] - DIVERGES * SIZE
        some = gone[:, :1]
        every, without = (called(looks(shifted, one, [count])) for one in (some & False, some))
        agree = (every == without) & (every != 0)
        shares = [(every != 0), (without != 0), agree, agree & some.any((1, 2))]
        print(f"| {count} | {' | '.join(f'{100 * one.mean():.1f} %' for one in shares)} |")


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sweeps", type=int, default=20_000)
    sweeps = parser.parse_args().sweeps
    for count in ONCE:
        print(f"\n**{count} seeds, judged once**\n")
        rows(sweeps, [count], {"plain": ((), False), "diverged runs apart": ((), True)})
    print(f"\n**Judged at each number of seeds from {sequential.FIRST} to {MOST}**\n")
    rows(
        sweeps,
        list(range(sequential.FIRST, MOST + 1)),
        {"plain": ((), False), "declared": (LOOKS, True)},
    )
    print("\n**Width of an interval, beside that of one look**\n")
    widths()
    print("\n**Power**\n")
    powers(sweeps)
    print("\n**A cell that diverges in a fifth of its runs**\n")
    diverging(sweeps)


if __name__ == "__main__":
    main()
