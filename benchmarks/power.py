"""Family-wise error rate, coverage and power of five tests on simulated sweeps.

    python benchmarks/power.py              # the tables of docs/judging.md; half a minute
    python benchmarks/power.py --sweeps 20000

Each simulated sweep has five cells, the first of them the baseline: four comparisons with Holm's
correction. The score of a cell is its mean, plus an effect of the seed on all cells (standard
deviation 2), plus noise of its own (standard deviation 1 unless a row says otherwise). The tests:

- paired t: of the differences by seed (Student 1908), which `tfzoo` uses;
- Welch t: of the two cells without pairing (Welch 1947);
- two-way: analysis of variance with factors cell and seed and one common variance;
- two-way, own variances: the same with a variance for each cell (Grubbs 1948) and degrees of
  freedom by Satterthwaite (1946);
- moderated t: paired, with variances shrunk to a common one by empirical Bayes (Smyth 2004, as in
  limma).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import special

from tfzoo.sweep.judge.paired import ALPHA, holm, interval

Floats = NDArray[np.float64]
Found = tuple[
    Floats, Floats, Floats
]  # difference, standard error, degrees of freedom: (sweeps, comparisons)
CELLS = 5
SEEDS = (3, 5, 10)


def differences(y: Floats) -> Floats:
    return y[:, 1:] - y[:, :1]


def paired(y: Floats) -> Found:
    d = differences(y)
    return d.mean(2), d.std(2, ddof=1) / d.shape[2] ** 0.5, np.full(d.shape[:2], d.shape[2] - 1.0)


def two_variances(y: Floats, variances: Floats) -> Found:
    """The difference of two independent cells, with Satterthwaite's degrees of freedom."""
    own, base, n = variances[:, 1:], variances[:, :1], y.shape[2]
    return (
        differences(y).mean(2),
        np.sqrt((own + base) / n),
        (own + base) ** 2 * (n - 1) / (own**2 + base**2),
    )


def welch(y: Floats) -> Found:
    return two_variances(y, y.var(2, ddof=1))


def residuals(y: Floats) -> Floats:
    return y - y.mean(2, keepdims=True) - y.mean(1, keepdims=True) + y.mean((1, 2), keepdims=True)


def two_way(y: Floats) -> Found:
    _, k, n = y.shape
    free = (k - 1) * (n - 1)
    variance = (residuals(y) ** 2).sum((1, 2)) / free
    d = differences(y).mean(2)
    return (
        d,
        np.broadcast_to(np.sqrt(2 * variance / n)[:, None], d.shape),
        np.full(d.shape, float(free)),
    )


def own_variances(y: Floats) -> Found:
    _, k, n = y.shape
    sums = (residuals(y) ** 2).sum(2) / (n - 1)
    variances = (sums - sums.sum(1, keepdims=True) / (k * (k - 1))) * k / (k - 2)
    return two_variances(y, np.maximum(variances, 1e-3 * sums.mean(1, keepdims=True)))


def moderated(y: Floats) -> Found:
    """Smyth (2004), section 6.2: the prior's variance and degrees of freedom from mean and variance
    of the log variances.
    """
    d, free = differences(y), y.shape[2] - 1.0
    variances = d.var(2, ddof=1)
    logs = np.log(variances) - special.digamma(free / 2) + np.log(free / 2)
    excess = logs.var(1, ddof=1, keepdims=True) - special.polygamma(1, free / 2)
    half = inverse_trigamma(np.where(excess > 0, excess, 1.0))
    drawn = np.where(excess > 0, special.digamma(half) - np.log(half), 0.0)
    prior, about = np.where(excess > 0, 2 * half, 1e6), np.exp(logs.mean(1, keepdims=True) + drawn)
    posterior = (prior * about + free * variances) / (prior + free)
    total = np.minimum(prior + free, free * variances.shape[1])
    return d.mean(2), np.sqrt(posterior / y.shape[2]), np.broadcast_to(total, variances.shape)


def inverse_trigamma(x: Floats) -> Floats:
    y = 0.5 + 1 / x
    for _ in range(30):
        y = y + special.polygamma(1, y) * (1 - special.polygamma(1, y) / x) / special.polygamma(
            2, y
        )
    return y


TESTS: dict[str, Callable[[Floats], Found]] = {
    "paired t": paired,
    "Welch t": welch,
    "two-way": two_way,
    "two-way, own variances": own_variances,
    "moderated t": moderated,
}
EVEN = (1, 1, 1, 1, 1)
WORLDS = {  # standard deviation of each cell's noise, its part of the seed's effect, skewed noise
    "equal, no effect of the seed": (EVEN, (0, 0, 0, 0, 0), False),
    "equal": (EVEN, EVEN, False),
    "one cell 4 times as noisy": ((1, 1, 1, 1, 4), EVEN, False),
    "noise from 1 to 4": ((1, 1.75, 2.5, 3.25, 4), EVEN, False),
    "the baseline 4 times as noisy": ((4, 1, 1, 1, 1), EVEN, False),
    "all but the baseline 4 times as noisy": ((1, 4, 4, 4, 4), EVEN, False),
    "two cells do not share the seed's effect": (EVEN, (1, 1, 1, 0, 0), False),
    "exponential noise": (EVEN, EVEN, True),
    "exponential noise, the baseline's 4 times": ((4, 1, 1, 1, 1), EVEN, True),
}


def simulate(sweeps: int, seeds: int, world: str = "equal", effect: float = 0.0) -> Floats:
    """``(sweeps, cells, seeds)``; the second cell is better by ``effect``."""
    random = np.random.default_rng([seeds, list(WORLDS).index(world), round(100 * effect)])
    spread, shared, skewed = WORLDS[world]
    shape = (sweeps, CELLS, seeds)
    noise = random.exponential(size=shape) - 1 if skewed else random.standard_normal(shape)
    y = (
        noise * np.array(spread)[:, None]
        + 2 * random.standard_normal((sweeps, 1, seeds)) * np.array(shared)[:, None]
    )
    y[:, 1] += effect
    return y


def judged(found: Found) -> tuple[Floats, NDArray[np.bool_]]:
    """Corrected p, and whether each interval contains 0."""
    d, error, free = found
    return holm(2 * special.stdtr(free, -np.abs(d) / error)), np.abs(d) <= special.stdtrit(
        free, 1 - ALPHA / 2
    ) * error


def choice(sweeps: int, seeds: int) -> None:
    print(
        f"\n{seeds} seeds, no true difference: family-wise error rate in % "
        "(lowest coverage of an interval in %)\n"
    )
    print("| | " + " | ".join(TESTS) + " |\n|---" + "|---" * len(TESTS) + "|")
    for world in WORLDS:
        y, row = simulate(sweeps, seeds, world), []
        for test in TESTS.values():
            p, holds = judged(test(y))
            row.append(f"{100 * (p < ALPHA).any(1).mean():.1f} ({100 * holds.mean(0).min():.0f})")
        print(f"| {world} | " + " | ".join(row) + " |")
    for effect in (2, 3, 4):
        y = simulate(sweeps, seeds, "equal", effect)
        row = [f"{100 * (judged(test(y))[0][:, 0] < ALPHA).mean():.0f}" for test in TESTS.values()]
        print(f"| **power** for an effect of {effect}, equal | " + " | ".join(row) + " |")


def powers(sweeps: int) -> None:
    effects, counts = (0.5, 1, 1.5, 2, 3, 4, 6), (3, 4, 5, 6, 8, 10, 15, 20)
    print(
        "\nPower in % of the paired t test with Holm's correction for four comparisons, "
        "by size of the effect and number of seeds\n"
    )
    print(
        "| effect | "
        + " | ".join(f"{count} seeds" for count in counts)
        + " |\n|---"
        + "|---" * len(counts)
        + "|"
    )
    for effect in effects:
        row = []
        for count in counts:
            p = holm(interval(differences(simulate(sweeps, count, "equal", effect))).p)
            row.append(f"{100 * (p[:, 0] < ALPHA).mean():.0f}")
        print(f"| {effect} | " + " | ".join(row) + " |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sweeps", type=int, default=10_000)
    given = parser.parse_args()
    for seeds in SEEDS:
        choice(given.sweeps, seeds)
    powers(given.sweeps)
