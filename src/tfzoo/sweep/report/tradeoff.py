"""Scatter plots of quality against speed, one mark per cell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from markupsafe import Markup

from tfzoo.sweep.judge.verdicts import Judged
from tfzoo.sweep.report.numbers import format_value
from tfzoo.sweep.report.results import Results
from tfzoo.sweep.report.svg import KINDS, Scale, limits, line, mark, picture, tag, text, text_width

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 510.0, 380.0, 52.0, 46.0, 30.0, 24.0
SPEEDS = {
    "tokens_per_second": "Training, tokens per second",
    "decoded_per_second": "Decoding, outputs per second",
}
ABOVE, BELOW = 12.0, 5.0
"""Extent of a label above and below its base line."""
OFFSETS = [
    (dx * reach, dy * reach + 4, anchor)
    for reach in (1.0, 1.6, 2.3, 3.0, 4.0, 5.0, 6.5, 8.0, 10.0, 12.0)
    for dx, dy, anchor in (
        (10.0, 0.0, "start"),
        (-10.0, 0.0, "end"),
        (0.0, -16.0, "middle"),
        (0.0, 16.0, "middle"),
        (9.0, -12.0, "start"),
        (9.0, 12.0, "start"),
        (-9.0, -12.0, "end"),
        (-9.0, 12.0, "end"),
    )
]
"""Positions of a label relative to its mark, in the order in which they are tried."""

Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""
Point = tuple[str, Judged, float, float]
"""Title, comparison, and pixels of a cell."""


def tradeoffs(results: Results) -> list[Markup]:
    """A plot for each speed that was measured."""
    plots = (tradeoff(results, column, words) for column, words in SPEEDS.items())
    return [plot for plot in plots if plot is not None]


def tradeoff(results: Results, column: str, words: str) -> Markup | None:
    """The score of each cell over its speed, both means over seeds; None for fewer than two."""
    found = [(cell, cell.judged[0], cell.mean(column)) for cell in results.cells]
    cells = [
        (cell.title, one, one.mean, speed)
        for cell, one, speed in found
        if one and one.mean is not None and speed
    ]
    if len(cells) < 2:
        return None
    verdicts = results.verdicts[0]
    x = Scale(*limits([speed for *_, speed in cells], 0.1), LEFT, WIDTH - RIGHT)
    y = Scale(*limits([mean for _, _, mean, _ in cells], 0.1), HEIGHT - BOTTOM, TOP)
    better = "lower" if verdicts.mode == "min" else "higher"
    drawn = [
        *frame(x, y),
        text(WIDTH - RIGHT, HEIGHT - 8, f"{words} →", "soft", "end"),
        text(0, 14, f"{verdicts.metric}, {better} is better", "soft"),
    ]
    points = [(title, one, x.pixel(speed), y.pixel(mean)) for title, one, mean, speed in cells]
    for (title, one, across, down), (*_, mean, speed) in zip(points, cells, strict=True):
        hover = f"{title}: {format_value(mean)} at {format_value(speed)}"
        drawn.append(mark(across, down, one.verdict, hover))
    drawn += labels(points)
    return picture(WIDTH, HEIGHT, f"{verdicts.metric} against {words.lower()}", *drawn)


def frame(x: Scale, y: Scale) -> Iterator[Markup]:
    """Grid lines and ticks."""
    for tick in y.ticks():
        yield line(LEFT, y.pixel(tick), WIDTH - RIGHT, y.pixel(tick), "grid")
        yield text(LEFT - 8, y.pixel(tick) + 4, format_value(tick), "tick", "end")
    for tick in x.ticks(4):
        yield text(x.pixel(tick), HEIGHT - BOTTOM + 20, f"{tick:,.0f}", "tick", "middle")


def labels(points: Sequence[Point]) -> Iterator[Markup]:
    """The titles of the marks, each at the first position where it overlaps no mark and no other
    title, with a line to its mark if it is not beside it. Lines cross titles only if there is no
    other position; a title without any is shown on hover only.
    """
    marks: list[Box] = [(x - 6, y - 6, x + 6, y + 6) for *_, x, y in points]
    titles: list[Box] = []
    leaders: list[Box] = []
    for title, one, x, y in points:
        width = text_width(title)
        for crossing, (dx, dy, anchor) in product((False, True), OFFSETS):
            left = x + dx - {"start": 0.0, "end": width, "middle": width / 2}[anchor]
            box = (left, y + dy - ABOVE, left + width, y + dy + BELOW)
            inside = left >= LEFT and box[2] <= WIDTH and TOP <= box[1] <= HEIGHT - BOTTOM - ABOVE
            end = (x + dx, box[1] if dy > 4 else box[3])
            leader = (min(x, end[0]), min(y, end[1]), max(x, end[0]) + 1, max(y, end[1]))
            far = abs(dx) > 10 or abs(dy - 4) > 16
            hidden = any(overlap(box, other) for other in (*marks, *titles))
            crossed = any(overlap(box, other) for other in leaders) or (
                far and any(overlap(leader, other) for other in titles)
            )
            if not inside or hidden or (crossed and not crossing):
                continue
            titles.append(box)
            if far:
                leaders.append(leader)
                yield line(x, y, *end, "leader")
            words = {"x": x + dx, "y": y + dy, "text_anchor": anchor}
            yield tag("text", title, **words, class_=f"label {KINDS[one.verdict]}")
            break


def overlap(one: Box, other: Box) -> bool:
    """Whether two boxes overlap."""
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
