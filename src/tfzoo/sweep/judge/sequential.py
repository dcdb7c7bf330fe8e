"""Student's t test while a sample grows: how large t must be at each declared number of seeds so
that all looks on the way together have the level of one test.

A group-sequential test (Jennison and Turnbull 2000, chapters 4 and 7). By ``n`` of ``N`` seeds it
has spent the share ``(n / N)^3`` of its level (Kim and DeMets 1987): early looks cost much and gain
little.

Its bounds are exact for normal differences, whatever their variance. Under the null hypothesis the
angle between the sample and the vector of ones is a Markov chain in the number of seeds: its next
value depends on the one before and on a t variable alone. The chain is followed on a grid.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

FIRST = 3
"""The fewest seeds that have a verdict."""
LATE = 3
"""The power with which the level is spent."""
LEVELS: Floats = np.concatenate([np.logspace(-9, -1, 65), np.linspace(0.1, 1, 28)[1:]])
"""The levels at which bounds are computed; between them they are interpolated."""
EDGES: Floats = np.linspace(0.0, np.pi / 2, 301)
"""Of the grid of angles. An angle of 0 is a sample of equal values, whose t is infinite."""


def spent(seeds: int, looks: Sequence[int]) -> float:
    """The share of the level that is spent at the look at ``seeds``."""
    before = max((look for look in looks if look < seeds), default=0)
    return float((seeds**LATE - before**LATE) / looks[-1] ** LATE)


def p_value(t: ArrayLike, seeds: int, looks: tuple[int, ...]) -> Floats:
    """The smallest level at which a sample with these looks, in rising order, is significant at
    the look at ``seeds``. If a hypothesis is true, the probability that this falls to a level at
    any look is that level at the most.
    """
    bounds = _bounds(looks)[seeds]
    size = np.maximum(np.abs(np.asarray(t, np.float64)), 1e-9)
    found = np.interp(np.log(size), np.log(bounds[::-1]), np.log(LEVELS[::-1]), left=0.0)
    return np.asarray(np.exp(found), np.float64)


def critical(level: float, seeds: int, looks: tuple[int, ...]) -> float:
    """How large t must be at the look at ``seeds``."""
    bounds = _bounds(looks)[seeds]
    return float(np.exp(np.interp(np.log(level), np.log(LEVELS), np.log(bounds))))


@lru_cache(maxsize=8)
def _bounds(looks: tuple[int, ...]) -> dict[int, Floats]:
    """The bounds of t at each look: ``(levels)``."""
    found: dict[int, Floats] = {}
    inside: Floats | None = None
    for seeds in range(FIRST, looks[-1] + 1):
        below = _first_look() if inside is None else inside @ _transition(seeds - 1)
        if seeds in looks:
            spend = LEVELS * spent(seeds, looks)
            angles = np.array([_angle(*pair, seeds) for pair in zip(spend, below, strict=True)])
            found[seeds] = np.maximum((seeds - 1) ** 0.5 / np.tan(angles), 1e-9)
            left = np.maximum(below - spend[:, None], 0.0)
            below = np.where(angles[:, None] > EDGES, 0.0, left)
        inside = np.diff(below)
    return found


def _first_look() -> Floats:
    """The probability of a smaller angle than each edge at the first look, for each level."""
    with np.errstate(divide="ignore"):
        t = (FIRST - 1) ** 0.5 / np.tan(EDGES)
    return np.tile(2 * scipy.special.stdtr(FIRST - 1, -t), (len(LEVELS), 1))


def _angle(spend: float, below: Floats, seeds: int) -> float:
    """The angle under which a probability of ``spend`` lies. Between the edges of the grid, and
    under the first of them, the probability of a smaller angle is a power of the angle.
    """
    if spend < below[1]:
        return float(EDGES[1] * (spend / below[1]) ** (1 / (seeds - 1)))
    known = np.log(np.maximum(below[1:], 1e-300))
    return float(np.exp(np.interp(np.log(spend), known, np.log(EDGES[1:]))))


def _transition(seeds: int) -> Floats:
    """The probability of a smaller angle than each edge when a value is added to ``seeds`` values
    whose angle is the middle of each cell: ``(cells, edges)``.

    With values of length 1 and sum ``s``, and a new value ``z``, the angle is below ``a`` where
    ``(s + z)^2 > (n + 1) cos(a)^2 (1 + z^2)``: between two roots, or outside them. ``z sqrt(n)``
    is a t variable with ``n`` degrees of freedom.
    """
    total = seeds**0.5 * np.cos((EDGES[1:] + EDGES[:-1]) / 2)[:, None]
    square = (seeds + 1) * np.cos(EDGES)[None] ** 2
    root = np.sqrt(np.maximum(square * (1 + total**2 - square), 0.0))
    with np.errstate(divide="ignore"):
        ends = np.sort([(-total - root) / (1 - square), (-total + root) / (1 - square)], axis=0)
    between = np.diff(scipy.special.stdtr(seeds, ends * seeds**0.5), axis=0)[0]
    return np.where(square >= 1 + total**2, 0.0, np.where(square > 1, between, 1 - between))
