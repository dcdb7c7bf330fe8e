"""Scores: those that a Trainer has, and as text."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from tfzoo.base.registry import registry


@cache
def factors() -> Mapping[str, int]:
    """What makes percentages of the scores that tasks declare as ``shares`` or ``percentages``."""
    units = {"shares": 100, "percentages": 1}
    return {
        name: factor
        for attribute, factor in units.items()
        for names in registry("task").declared(attribute).values()
        for name in names.split()
    }


def format_score(name: str, value: float, interval: tuple[float, float] | None = None) -> str:
    """Format a score: a share in percent, any other number with four digits; then its interval, in
    the same unit.

    >>> format_score("accuracy", 0.98765), format_score("val/exact_match", 98.765)
    ('98.77 %', '98.77 %')
    >>> format_score("accuracy", 0.9, (0.85, 0.93))
    '90 % (85 to 93)'
    """
    factor = factors().get(name.rpartition("/")[2])
    said = f"{(factor or 1) * value:.4g}"
    if factor is not None:
        said += " %"
    elif value.is_integer() and abs(value) >= 1000:
        said = f"{value:,.0f}"
    if interval is None:
        return said
    low, high = (f"{one * (factor or 1):.3g}" for one in interval)
    return f"{said} ({low} to {high})"


def format_scores(
    scores: Mapping[str, float], intervals: Mapping[str, tuple[float, float]] | None = None
) -> list[tuple[str, str]]:
    """One row for each data set: its name, and its scores with the intervals that there are.

    >>> format_scores({"test/loss": 1.5, "test/long/loss": 2.25, "test/items": 200.0})
    [('test', 'loss 1.5'), ('test/long', 'loss 2.25')]
    """
    sets: dict[str, list[str]] = {}
    for key in sorted(scores):
        name, _, score = key.rpartition("/")
        if score != "items":
            interval = (intervals or {}).get(key)
            said = format_score(score, scores[key], interval)
            sets.setdefault(name, []).append(f"{score} {said}")
    return [(name, "  ".join(texts)) for name, texts in sorted(sets.items())]


def logged_scores(trainer: Any) -> dict[str, float]:
    """The last value of each metric that a training, a validation or a test has logged."""
    return {name: float(value) for name, value in trainer.callback_metrics.items()}
