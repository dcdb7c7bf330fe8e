"""The effect plot: differences to the baseline with their intervals."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from tfzoo.sweep.judge import Judged, Verdicts
from tfzoo.sweep.report.numbers import short, span
from tfzoo.sweep.report.svg import KINDS, Scale, limits, line, mark, path, picture, text, wide
from tfzoo.sweep.results import Results

WIDTH, ROW, TOP, GAP = 1040.0, 27.0, 54.0, 18.0
FIGURES = 190.0
"""The column of numbers at the right."""

Group = tuple[str, Sequence[tuple[str, Judged]]]


def forest(results: Results, verdicts: Verdicts) -> Markup | None:
    """One row a value of an axis, then one a cell; None where nothing has a difference."""
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
    left = min(330.0, max(wide(name) for _, rows in groups for name, _ in rows) + 26)
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
    """Values of axes, and cells where those are something else."""
    cells = [(results.told(one), one) for one in verdicts.cells if one.verdict != "baseline"]
    if len(results.axes) < 2 or results.file.get("mode") == "one_at_a_time":
        return [("", cells)]
    values = [(results.told_value(one), one) for one in verdicts.axes if one.verdict != "baseline"]
    return [
        ("Axes: one value against the baseline's, over all other settings", values),
        ("Cells: against the baseline cell", cells),
    ]


def frame(scale: Scale, verdicts: Verdicts, height: float) -> list[Markup]:
    """The line of no difference, ticks and which side is the better one."""
    zero, lower = scale.place(0.0), verdicts.mode == "min"
    drawn = [
        line(scale.place(tick), TOP - 8, scale.place(tick), height - 10, "grid")
        for tick in scale.ticks(6)
    ]
    drawn += [
        text(scale.place(tick), TOP - 14, short(tick), "tick", "middle") for tick in scale.ticks(6)
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
    """Name, interval with its mark, numbers. An end that lies outside is an arrow."""
    room = int((scale.start - 26) // (wide("x")))
    name = words if len(words) <= room else f"{words[: room - 1]}…"
    drawn = [text(scale.start - 22, y + 4, name, None, "end")]
    if one.difference is None:
        return [*drawn, text(scale.place(0.0) + 8, y + 4, "not judged", "soft")]
    low, high = one.difference_low, one.difference_high
    if low is not None and high is not None:
        drawn.append(line(scale.place(low), y, scale.place(high), y, f"bar {KINDS[one.verdict]}"))
        for end, way in ((low, -1), (high, 1)):
            if not scale.holds(end):
                x = scale.place(end)
                drawn.append(
                    path(
                        [(x - 5 * way, y - 4), (x, y), (x - 5 * way, y + 4)],
                        f"bar {KINDS[one.verdict]}",
                    )
                )
    drawn.append(mark(scale.place(one.difference), y, one.verdict, one.sentence))
    return [*drawn, text(WIDTH, y + 4, span(one.difference, low, high), "figures", "end")]
