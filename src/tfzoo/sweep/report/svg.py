"""SVG elements, scales and marks. Colours are CSS classes, which the page defines for light and
dark mode.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from unicodedata import east_asian_width

from markupsafe import Markup

LETTER = 7.4
"""An upper estimate of the mean width of a letter at 12 px, in pixels."""
WIDE, WIDEST = 9.5, 13.0
"""The same of capitals, and of Chinese characters and letters such as ``W``."""
KINDS = {
    "better": "better",
    "worse": "worse",
    "equivalent": "equal",
    "not yet known": "same",
    "baseline": "base",
    "not judged": "open",
}
"""The CSS class of each verdict."""


def tag(name: str, *inside: str, **attributes: object) -> Markup:
    """An element with escaped text and attributes. ``class_`` stands for ``class`` and
    ``text_anchor`` for ``text-anchor``; an attribute that is None is omitted.
    """
    given = {
        key.rstrip("_").replace("_", "-"): value
        for key, value in attributes.items()
        if value is not None
    }
    pairs = Markup().join(
        Markup(' {}="{}"').format(key, format_attribute(value)) for key, value in given.items()
    )
    return Markup("<{0}{1}>{2}</{0}>").format(name, pairs, Markup().join(inside))


def format_attribute(value: object) -> str:
    """The text of an attribute; pixels are rounded to tenths."""
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)


def picture(width: float, height: float, label: str, *inside: str) -> Markup:
    """An ``svg`` element with its text alternative."""
    box = f"0 0 {format_attribute(float(width))} {format_attribute(float(height))}"
    size = {"width": float(width), "height": float(height)}
    return tag("svg", *inside, viewBox=box, **size, role="img", aria_label=label)


def text(
    x: float, y: float, words: str, class_: str | None = None, anchor: str | None = None
) -> Markup:
    """Text with its base line at ``y``."""
    return tag("text", words, x=float(x), y=float(y), class_=class_, text_anchor=anchor)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    """A straight line."""
    return tag("line", x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), class_=class_)


def path(points: Iterable[tuple[float, float]], class_: str, closed: bool = False) -> Markup:
    """A line through points, or the area that they enclose."""
    steps = "L".join(
        f"{format_attribute(float(x))} {format_attribute(float(y))}" for x, y in points
    )
    return tag("path", d=f"M{steps}{'Z' * closed}", class_=class_)


def mark(x: float, y: float, verdict: str, title: str = "", size: float = 5.5) -> Markup:
    """The mark of a verdict, distinct by shape and colour: triangle up better, triangle down worse,
    square equivalent, ring not yet known, dot not judged, diamond baseline. ``title`` is shown on
    hover.
    """
    kind, r = KINDS[verdict], size
    hover = [tag("title", title)] if title else []
    if kind in ("same", "open"):
        radius = r - (2.5 if kind == "open" else 0.8)
        return tag("circle", *hover, cx=float(x), cy=float(y), r=radius, class_=f"mark {kind}")
    up = {"better": -1, "worse": 1}.get(kind, 0)
    if up:
        points = [(x, y + up * r), (x + r, y - up * r * 0.8), (x - r, y - up * r * 0.8)]
    elif kind == "equal":
        points = [
            (x + a * r * 0.8, y + b * r * 0.8) for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))
        ]
    else:
        points = [(x, y - r), (x + r, y), (x, y + r), (x - r, y)]
    corners = " ".join(
        f"{format_attribute(float(a))},{format_attribute(float(b))}" for a, b in points
    )
    return tag("polygon", *hover, points=corners, class_=f"mark {kind}")


@dataclass(frozen=True)
class Scale:
    """A linear map from values to pixels."""

    low: float
    high: float
    start: float
    end: float

    def pixel(self, value: float) -> float:
        """The pixel of a value; values outside the limits are drawn at the edge."""
        return self.unclipped(min(self.high, max(self.low, value)))

    def unclipped(self, value: float) -> float:
        """The pixel of a value, also outside the limits."""
        part = (value - self.low) / ((self.high - self.low) or 1)
        return self.start + (self.end - self.start) * part

    def contains(self, value: float) -> bool:
        """Whether a value lies within the limits."""
        return self.low <= value <= self.high

    def ticks(self, count: int = 5) -> list[float]:
        """About ``count`` round numbers within the limits."""
        return ticks(self.low, self.high, count)


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """About ``count`` round numbers between two.

    >>> ticks(0.12, 0.97)
    [0.2, 0.4, 0.6, 0.8]
    """
    rough = (high - low) / max(count, 1) or 1.0
    power = 10 ** math.floor(math.log10(rough))
    step = min(
        (one * power for one in (1, 2, 5, 10) if one * power >= rough * 0.999), default=power
    )
    return [
        round(index * step, 12) + 0.0
        for index in range(math.ceil(low / step), math.floor(high / step) + 1)
    ]


def limits(values: Sequence[float], margin: float = 0.06) -> tuple[float, float]:
    """The smallest and largest value without outliers, widened by ``margin`` of their range. An
    outlier is more than 10 interquartile ranges away from the quartiles.
    """
    known = sorted(value for value in values if math.isfinite(value))
    if not known:
        return 0.0, 1.0
    first, third = known[len(known) // 4], known[(3 * len(known)) // 4]
    reach = 10 * (third - first)
    kept = [value for value in known if first - reach <= value <= third + reach] if reach else known
    low, high = kept[0], kept[-1]
    spread = (high - low) or abs(high) or 1.0
    return low - margin * spread, high + margin * spread


def text_width(words: str) -> float:
    """An upper estimate of the width of a label, in pixels."""
    return sum(
        WIDEST
        if one in "MWmw@%" or east_asian_width(one) in "WF"
        else (WIDE if one.isupper() else LETTER)
        for one in words
    )
