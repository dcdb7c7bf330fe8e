"""Numbers as people read them."""

from __future__ import annotations

import math
from datetime import timedelta

NONE = "–"


def short(value: float | None) -> str:
    """Four digits; large numbers with commas."""
    if value is None:
        return NONE
    if math.isfinite(value) and abs(value) >= 10_000:
        return f"{value:,.0f}"
    return f"{value:.4g}".replace("-", "\N{MINUS SIGN}")


def around(mean: float | None, low: float | None, high: float | None) -> str:
    """A mean with half of its interval: ``2.013 ± 0.04``."""
    if mean is None:
        return NONE
    if low is None or high is None:
        return short(mean)
    half, digits = (high - low) / 2, places(low, high)
    return f"{mean:,.{digits}f} ± {half:,.{digits}f}".replace("-", "\N{MINUS SIGN}")


def span(value: float | None, low: float | None, high: float | None) -> str:
    """A difference with its interval: ``-0.12 (-0.20 to -0.04)``."""
    if value is None or low is None or high is None:
        return gap(value, low, high)
    digits = places(low, high)
    return f"{signed(value, digits)} ({signed(low, digits)} to {signed(high, digits)})"


def gap(value: float | None, low: float | None, high: float | None) -> str:
    """A difference alone, with the digits that its interval gives a meaning."""
    return (
        NONE
        if value is None
        else signed(value, 3 if low is None or high is None else places(low, high))
    )


def places(low: float, high: float) -> int:
    """Decimals, so that half of the interval has two digits."""
    half = (high - low) / 2
    return max(0, 1 - math.floor(math.log10(half))) if half > 0 else 3


def signed(value: float, digits: int) -> str:
    """With its sign, unless it is nothing."""
    rounded = round(value, digits) + 0.0
    return (
        f"{rounded:+,.{digits}f}".replace("-", "\N{MINUS SIGN}") if rounded else f"{0:.{digits}f}"
    )


def chance(p: float | None) -> str:
    """A p value, never rounded across 5 %."""
    if p is None:
        return NONE
    if p < 0.001:
        return "< 0.001"
    return f"{p:.2g}" if (float(f"{p:.2g}") < 0.05) == (p < 0.05) else f"{p:.4f}"


def memory(size: float | None) -> str:
    """Bytes as MiB or GiB."""
    if size is None:
        return NONE
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"


def duration(seconds: float | None) -> str:
    """``0:03:25``; ``12.5 s`` of less than a minute."""
    if seconds is None:
        return NONE
    return f"{seconds:.1f} s" if seconds < 60 else str(timedelta(seconds=round(seconds)))
