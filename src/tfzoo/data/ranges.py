"""The ranges of the numbers that data, tokenizers and built-in data sets take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real

from tfzoo.errors import BadOption


@dataclass(frozen=True)
class Whole:
    """Whole numbers from ``low`` to ``high``. ``reason`` explains the lower bound, if that is not
    obvious.
    """

    low: int = 1
    high: int = 2**31 - 1
    reason: str = ""

    def __contains__(self, value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, Integral):
            return False
        return self.low <= int(value) <= self.high

    def __str__(self) -> str:
        reason = self.reason and f" ({self.low}: {self.reason})"
        return f"a whole number from {self.low} to {self.high:,}{reason}"


@dataclass(frozen=True)
class Fraction:
    """Numbers below 1 and from 0 on, or over 0 if ``zero`` is not allowed."""

    zero: bool = True

    def __contains__(self, value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, Real):
            return False
        return (float(value) >= 0 if self.zero else float(value) > 0) and float(value) < 1

    def __str__(self) -> str:
        return "a fraction from 0 to below 1" if self.zero else "a fraction between 0 and 1"


VOCABULARY = 10_000_000
"""The largest vocabulary: tokenizers reserve memory for it before they train."""


def check_numbers(
    where: str, values: Mapping[str, object], ranges: Mapping[str, Whole | Fraction]
) -> None:
    """Check numbers against their ranges. ``where`` is what stands before a name in the message.

    Raises:
        BadOption: the first one that is out of its range, or no number.
    """
    for name, value in values.items():
        if value not in ranges[name]:
            raise BadOption(f"{where}{name} is {value!r}; it must be {ranges[name]}")
