"""A sampled axis: values drawn between two bounds take the place of a list of values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from math import isfinite
from random import Random
from typing import Any

KEYS = ("low", "high", "log", "count", "seed")
GOLDEN = 0.6180339887498949
"""The fraction of the golden ratio: multiples of it, modulo 1, fill an interval evenly, whatever
their number.
"""
DIGITS = 3
"""Significant digits of a value that is no whole number."""
MAX_DRAWS = 100_000


def is_sample(values: Any) -> bool:
    """Whether the values of an axis are bounds, and not named sets of keys."""
    return (
        isinstance(values, Mapping)
        and not {"low", "high"}.isdisjoint(values)
        and not any(isinstance(one, Mapping) for one in values.values())
    )


def draw(axis: str, given: Mapping[str, Any]) -> list[int | float]:
    """The values of an axis, a function of its name, its bounds and ``seed``.

    They are whole numbers if both bounds are. A larger ``count`` adds values and keeps the others.

    Raises:
        ValueError: a bound or the count is wrong; the message says which.
    """
    low: Any = given.get("low")
    high: Any = given.get("high")
    count, seed, log = given.get("count"), given.get("seed", 0), given.get("log", False)
    for name, bound in (("low", low), ("high", high)):
        if type(bound) not in (int, float) or not isfinite(bound or 0):
            raise ValueError(f"{name} is a number, not {bound!r}")
    if not isinstance(log, bool):
        raise ValueError(f"log is true or false, not {log!r}")
    if low >= high:
        raise ValueError(f"low is below high, not {low!r} and {high!r}")
    if log and low <= 0:
        raise ValueError(f"low is above 0 where log is true, not {low!r}")
    if type(count) is not int or count < 2:
        raise ValueError(f"count is a whole number from 2 on, not {count!r}")
    if type(seed) is not int:
        raise ValueError(f"seed is a whole number, not {seed!r}")
    found: dict[int | float, None] = {}
    for value in islice(values(axis, seed, low, high, log), MAX_DRAWS):
        found[value] = None
        if len(found) == count:
            break
    else:
        raise ValueError(
            f"there are only {len(found)} values between {low} and {high}, not {count}"
        )
    return list(found)


def values(axis: str, seed: int, low: float, high: float, log: bool) -> Iterator[int | float]:
    """Values between two bounds without end, evenly spread from a random start, on a logarithmic
    scale if ``log``.
    """
    place, whole = Random(f"{axis} {seed}").random(), type(low) is type(high) is int
    # Each whole number stands for an interval of length 1 around it.
    start, end = (low - 0.5, high + 0.5) if whole else (low, high)
    while True:
        value = start * (end / start) ** place if log else start + (end - start) * place
        rounded = round(value) if whole else float(f"{value:.{DIGITS}g}")
        yield min(max(rounded, low), high)
        place = (place + GOLDEN) % 1.0
