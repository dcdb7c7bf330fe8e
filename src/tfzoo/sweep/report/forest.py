"""The forest plot: differences to the baseline with their confidence intervals."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from tfzoo.sweep.judge.verdicts import Judged, Verdicts
from tfzoo.sweep.report.numbers import format_interval, format_value
from tfzoo.sweep.report.results import Results
from tfzoo.sweep.report.svg import KINDS, Scale, limits, line, mark, path, picture, text

WIDTH, ROW, TOP, GAP = 1040.0, 27.0, 54.0, 18.0
FIGURES = 190.0
"""Width of the column of numbers."""
LETTER = 6.6
"""The mean width of a letter at 13 px."""

Group = tuple[str, Sequence[tuple[str, Judged]]]


def forest(results: Results, verdicts: Verdicts) -> Markup | None:
    """One row per value of an axis, then one per cell; None if there are no differences."""
    groups = list(grouped(results, verdicts))
    shown = [one for _, rows in groups for _, one in rows if one.difference is not None]
    if not shown:
        return None
    ends = [
        end
        for one in shown
        for end in (one.difference_low, one.difference, one.difference_high)
        if end is not None
    ]
    low, high = limits([0.0, *ends])
    left = min(330.0, max(LETTER * len(name) for _, rows in groups for name, _ in rows) + 26)
    height = TOP + sum(ROW * len(rows) + GAP + (ROW if name else 0) for name, rows in groups) + 10
    scale = Scale(low, high, left + 12, WIDTH - FIGURES - 24)
    return picture(
        WIDTH,
        height,
        f"Differences of {verdicts.metric} to the baseline",
        *frame(scale, verdicts, height),
        *body(groups, scale),
    )


def grouped(results: Results, verdicts: Verdicts) -> list[Group]:
    """Main effects and cells, or only cells if they are the effects of single axes."""
    cells = [(results.title(one), one) for one in verdicts.cells if one.verdict != "baseline"]
    if not verdicts.is_grid:
        return [("", cells)]
    values = [(results.title(one), one) for one in verdicts.axes if one.verdict != "baseline"]
    return [
        ("Main effects: one value against the baseline's, averaged over the other axes", values),
        ("Cells: each against the baseline cell", cells),
    ]


def frame(scale: Scale, verdicts: Verdicts, height: float) -> list[Markup]:
    """The line of no difference, ticks, and which side is better."""
    zero, lower = scale.pixel(0.0), verdicts.mode == "min"
    drawn = [
        line(scale.pixel(tick), TOP - 8, scale.pixel(tick), height - 10, "grid")
        for tick in scale.ticks(6)
    ]
    drawn += [
        text(scale.pixel(tick), TOP - 14, format_value(tick), "tick", "middle")
        for tick in scale.ticks(6)
    ]
    drawn.append(line(zero, TOP - 8, zero, height - 10, "axis"))
    sides = ("← better", "worse →") if lower else ("← worse", "better →")
    room = (zero - scale.start, scale.end - zero)
    for side, words, anchor, shift in ((0, sides[0], "end", -8.0), (1, sides[1], "start", 8.0)):
        if room[side] > 70:
            drawn.append(text(zero + shift, 14, words, "soft", anchor))
    return drawn


def body(groups: Sequence[Group], scale: Scale) -> list[Markup]:
    """The rows."""
    drawn, y = [], TOP
    for name, rows in groups:
        if name:
            y += ROW
            drawn.append(text(0, y - 8, name, "group"))
        for words, one in rows:
            y += ROW
            drawn += row(words, one, scale, y - ROW / 2)
        y += GAP
    return drawn


def row(words: str, one: Judged, scale: Scale, y: float) -> list[Markup]:
    """Name, interval with its mark, numbers. An end outside the plot is an arrow."""
    room = int((scale.start - 26) // LETTER)
    name = words if len(words) <= room else f"{words[: room - 1]}…"
    drawn = [text(scale.start - 22, y + 4, name, None, "end")]
    if one.difference is None:
        return [*drawn, text(scale.pixel(0.0) + 8, y + 4, "not judged", "soft")]
    low, high = one.difference_low, one.difference_high
    if low is not None and high is not None:
        drawn.append(line(scale.pixel(low), y, scale.pixel(high), y, f"bar {KINDS[one.verdict]}"))
        for end, way in ((low, -1), (high, 1)):
            if not scale.contains(end):
                x = scale.pixel(end)
                drawn.append(
                    path(
                        [(x - 5 * way, y - 4), (x, y), (x - 5 * way, y + 4)],
                        f"bar {KINDS[one.verdict]}",
                    )
                )
    drawn.append(mark(scale.pixel(one.difference), y, one.verdict, one.sentence))
    return [
        *drawn,
        text(WIDTH, y + 4, format_interval(one.difference, low, high), "figures", "end"),
    ]
