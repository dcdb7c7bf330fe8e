"""Pictures as text: SVG elements, scales and marks. Colours are classes of the page, which knows
light from dark.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

LETTER = 6.6
"""The width of a letter of the pictures' font, on average, in pixels."""
KINDS = {
    "better": "better",
    "worse": "worse",
    "not distinguishable": "same",
    "baseline": "base",
    "not judged": "open",
}
"""The class of each verdict."""


def tag(name: str, *inside: str, **attributes: object) -> Markup:
    """An element. All text is escaped; ``class_`` means ``class``, ``text_anchor`` means
    ``text-anchor``, None leaves out.
    """
    given = {
        key.rstrip("_").replace("_", "-"): value
        for key, value in attributes.items()
        if value is not None
    }
    pairs = Markup().join(
        Markup(' {}="{}"').format(key, plain(value)) for key, value in given.items()
    )
    return Markup("<{0}{1}>{2}</{0}>").format(name, pairs, Markup().join(inside))


def plain(value: object) -> str:
    """A tenth of a pixel is enough."""
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)


def picture(width: float, height: float, label: str, *inside: str, class_: str = "") -> Markup:
    """A whole picture, with the words that stand for it."""
    box = f"0 0 {plain(float(width))} {plain(float(height))}"
    return tag(
        "svg",
        *inside,
        viewBox=box,
        width=float(width),
        height=float(height),
        role="img",
        aria_label=label,
        class_=class_ or None,
    )


def text(
    x: float, y: float, words: str, class_: str | None = None, anchor: str | None = None
) -> Markup:
    """Words with their base line at ``y``."""
    return tag("text", words, x=float(x), y=float(y), class_=class_, text_anchor=anchor)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    """A straight one."""
    return tag("line", x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), class_=class_)


def path(points: Iterable[tuple[float, float]], class_: str, closed: bool = False) -> Markup:
    """A line through points, or an area."""
    steps = "L".join(f"{plain(float(x))} {plain(float(y))}" for x, y in points)
    return tag("path", d=f"M{steps}{'Z' * closed}", class_=class_)


def mark(x: float, y: float, verdict: str, title: str = "", size: float = 5.5) -> Markup:
    """The sign of a verdict, by shape as well as by colour: up better, down worse, ring not
    distinguishable, diamond baseline.
    """
    kind, r = KINDS[verdict], size
    told = [tag("title", title)] if title else []
    if kind in ("same", "open"):
        return tag(
            "circle",
            *told,
            cx=float(x),
            cy=float(y),
            r=r - (2.5 if kind == "open" else 0.8),
            class_=f"mark {kind}",
        )
    up = {"better": -1, "worse": 1}.get(kind, 0)
    if up:
        points = [(x, y + up * r), (x + r, y - up * r * 0.8), (x - r, y - up * r * 0.8)]
    else:
        points = [(x, y - r), (x + r, y), (x, y + r), (x - r, y)]
    said = " ".join(f"{plain(float(a))},{plain(float(b))}" for a, b in points)
    return tag("polygon", *told, points=said, class_=f"mark {kind}")


@dataclass(frozen=True)
class Scale:
    """From values to pixels; ``place`` keeps what lies outside at the edge."""

    low: float
    high: float
    start: float
    end: float

    def place(self, value: float) -> float:
        return self.beyond(min(self.high, max(self.low, value)))

    def beyond(self, value: float) -> float:
        """Its place, wherever that is."""
        return self.start + (self.end - self.start) * (value - self.low) / (
            (self.high - self.low) or 1
        )

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high

    def ticks(self, count: int = 5) -> list[float]:
        """About so many round numbers."""
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
        round(place * step, 12) + 0.0
        for place in range(math.ceil(low / step), math.floor(high / step) + 1)
    ]


def limits(values: Sequence[float], room: float = 0.06) -> tuple[float, float]:
    """The least and the largest, but for what lies far from the rest; with some room."""
    known = sorted(value for value in values if math.isfinite(value))
    if not known:
        return 0.0, 1.0
    first, third = known[len(known) // 4], known[(3 * len(known)) // 4]
    reach = 10 * (third - first)
    kept = [value for value in known if first - reach <= value <= third + reach] if reach else known
    low, high = kept[0], kept[-1]
    spread = (high - low) or abs(high) or 1.0
    return low - room * spread, high + room * spread


def wide(words: str) -> float:
    """About how many pixels words take."""
    return LETTER * len(words)
