"""Numbers as the report shows them."""

from __future__ import annotations

import math

from tfzoo.sweep.judge.sentences import decimals

NONE = "–"


def format_value(value: float | None) -> str:
    """Four significant digits; large numbers with commas."""
    if value is None:
        return NONE
    if math.isfinite(value) and abs(value) >= 10_000:
        return f"{value:,.0f}"
    return f"{value:.4g}".replace("-", "\N{MINUS SIGN}")


def format_mean(mean: float | None, low: float | None, high: float | None) -> str:
    """A mean with half the width of its interval: ``2.013 ± 0.04``."""
    if mean is None:
        return NONE
    if low is None or high is None:
        return format_value(mean)
    half = (high - low) / 2
    digits = decimals(-half, half)
    return f"{mean:,.{digits}f} ± {half:,.{digits}f}".replace("-", "\N{MINUS SIGN}")


def format_interval(value: float | None, low: float | None, high: float | None) -> str:
    """A difference with its interval: ``-0.12 (-0.20 to -0.04)``."""
    if value is None or low is None or high is None:
        return format_difference(value, low, high)
    return f"{format_difference(value, low, high)} ({format_ends(low, high)})"


def format_ends(low: float | None, high: float | None) -> str:
    """An interval: ``-0.20 to -0.04``; ``""`` if there is none."""
    if low is None or high is None:
        return ""
    return " to ".join(format_signed(end, decimals(low, high)) for end in (low, high))


def format_difference(value: float | None, low: float | None, high: float | None) -> str:
    """A difference, rounded by the width of its interval."""
    return (
        NONE
        if value is None
        else format_signed(value, 3 if low is None or high is None else decimals(low, high))
    )


def format_signed(value: float, digits: int) -> str:
    """A number with its sign; 0 without one."""
    rounded = round(value, digits) + 0.0
    return (
        f"{rounded:+,.{digits}f}".replace("-", "\N{MINUS SIGN}") if rounded else f"{0:.{digits}f}"
    )


def format_memory(size: float | None) -> str:
    """Bytes in MiB or GiB."""
    if size is None:
        return NONE
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"
