"""Quality against speed: what a better score costs."""

from __future__ import annotations

from collections.abc import Iterator

from markupsafe import Markup

from tfzoo.sweep.report.numbers import short
from tfzoo.sweep.report.svg import KINDS, Scale, limits, line, mark, picture, tag, text, wide
from tfzoo.sweep.results import Results

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 510.0, 380.0, 52.0, 46.0, 30.0, 24.0
SPEEDS = {
    "tokens_per_second": "Training, tokens a second",
    "decoded_per_second": "Decoding, outputs a second",
}

Box = tuple[float, float, float, float]


def tradeoffs(results: Results) -> list[Markup]:
    """A picture for each speed that was measured."""
    return [
        drawn for column, words in SPEEDS.items() if (drawn := tradeoff(results, column, words))
    ]


def tradeoff(results: Results, column: str, words: str) -> Markup | None:
    """A mark a cell, its score over its speed, each a mean over seeds; None with fewer than two."""
    found = [(cell, cell.judged[0], cell.mean(column)) for cell in results.cells]
    points = [
        (cell.title, one, one.mean, speed)
        for cell, one, speed in found
        if one and one.mean is not None and speed
    ]
    if len(points) < 2:
        return None
    verdicts = results.verdicts[0]
    x = Scale(*limits([speed for *_, speed in points], 0.1), LEFT, WIDTH - RIGHT)
    y = Scale(*limits([mean for _, _, mean, _ in points], 0.1), HEIGHT - BOTTOM, TOP)
    drawn = [line(LEFT, y.place(tick), WIDTH - RIGHT, y.place(tick), "grid") for tick in y.ticks()]
    drawn += [text(LEFT - 8, y.place(tick) + 4, short(tick), "tick", "end") for tick in y.ticks()]
    drawn += [
        text(x.place(tick), HEIGHT - BOTTOM + 20, f"{tick:,.0f}", "tick", "middle")
        for tick in x.ticks(4)
    ]
    drawn.append(text(WIDTH - RIGHT, HEIGHT - 8, f"{words} →", "soft", "end"))
    drawn.append(
        text(
            0,
            14,
            f"{verdicts.metric}, {'lower' if verdicts.mode == 'min' else 'higher'} is better",
            "soft",
        )
    )
    places = [
        (title, one, x.place(speed), y.place(mean), f"{title}: {short(mean)} at {short(speed)}")
        for title, one, mean, speed in points
    ]
    drawn += [mark(across, down, one.verdict, told) for _, one, across, down, told in places]
    drawn += labels(
        [(title, KINDS[one.verdict], across, down) for title, one, across, down, _ in places]
    )
    return picture(WIDTH, HEIGHT, f"{verdicts.metric} against {words.lower()}", *drawn)


def labels(points: list[tuple[str, str, float, float]]) -> Iterator[Markup]:
    """The names of the marks, each where it covers no other; one that has no place is told when
    pointed at.
    """
    taken: list[Box] = [(x - 6, y - 6, x + 6, y + 6) for *_, x, y in points]
    for title, kind, x, y in points:
        width = wide(title) * 0.92
        for dx, dy, anchor in (
            (10, 4, "start"),
            (-10, 4, "end"),
            (0, -11, "middle"),
            (0, 19, "middle"),
            (9, -7, "start"),
            (9, 15, "start"),
        ):
            left = x + dx - {"start": 0.0, "end": width, "middle": width / 2}[anchor]
            box = (left, y + dy - 10, left + width, y + dy + 2)
            if box[0] >= 0 and box[2] <= WIDTH and not any(cover(box, other) for other in taken):
                taken.append(box)
                yield tag(
                    "text", title, x=x + dx, y=y + dy, text_anchor=anchor, class_=f"label {kind}"
                )
                break


def cover(one: Box, other: Box) -> bool:
    """Whether two boxes overlap."""
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
