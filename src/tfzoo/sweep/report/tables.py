"""Tables of the report: all cells with scores, differences to the baseline and costs; interactions
of axes, a repeat with other seeds, and swaps in a trained model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import mean

from tfzoo.sweep.judge.repeats import Repeat, Repeats
from tfzoo.sweep.judge.sentences import format_p
from tfzoo.sweep.judge.verdicts import Judged
from tfzoo.sweep.report.facts import has_tuned, tuned
from tfzoo.sweep.report.figures import validated
from tfzoo.sweep.report.numbers import (
    NONE,
    format_difference,
    format_interval,
    format_mean,
    format_memory,
    format_signed,
    format_value,
)
from tfzoo.sweep.report.results import CellResult, Results

SIGNS = {"better": "▲", "worse": "▼", "equivalent": "■"}
"""Marks of verdicts in tables."""
HINTS = {"better": "△", "worse": "▽", "equivalent": "□"}
"""Of verdicts that are hints."""


def format_count(value: float | None) -> str:
    """A mean of counts, without decimals."""
    return format_value(None if value is None else float(round(value)))


COSTS: dict[str, tuple[str, Callable[[float | None], str]]] = {
    "parameters": ("Parameters", format_count),
    "tokens_per_second": ("Training tokens/s", format_count),
    "decoded_per_second": ("Decoded/s", format_count),
    "peak_memory": ("Peak memory", format_memory),
    "train_seconds": ("Training s", format_value),
}


@dataclass(frozen=True)
class Entry:
    """A field of the table.

    Attributes:
        text: what it shows.
        key: the value by which it is sorted; None is sorted last in both directions.
        kind: its CSS class.
        below: smaller text below.
        verdict: whose mark it shows.
    """

    text: str
    key: float | str | None
    kind: str = ""
    below: str = ""
    verdict: str = ""

    @property
    def whole(self) -> str:
        """All of its text on one line."""
        return f"{self.text} ({self.below})" if self.below else self.text


def cell_columns(results: Results) -> list[tuple[str, bool]]:
    """Title of each column, and whether it has numbers."""
    found = [(results.axis_name(axis), False) for axis in results.axes]
    found.append(("Runs", True))
    if key := has_tuned(results):
        found.append((f"Tuned {key}", True))
    for verdicts in results.verdicts:
        found += [(verdicts.metric, True), ("Difference", True)]
    return found + [(words, True) for words, _ in costs(results).values()]


def costs(results: Results) -> dict[str, tuple[str, Callable[[float | None], str]]]:
    """Title and format of each cost that was measured."""
    return {
        key: one
        for key, one in COSTS.items()
        if any(cell.mean(key) is not None for cell in results.cells)
    }


def cell_entries(results: Results, cell: CellResult) -> list[Entry]:
    """The fields of a cell, in the order of the columns."""
    found = [Entry(label, label, "label") for label in cell.labels.values()]
    gone = sum(row["status"] == "diverged" for row in cell.rows)
    ended = len(cell.done) + gone
    count = NONE if cell.refused else f"{ended}/{len(cell.rows)}"
    status = [] if cell.status == "completed" else [cell.status]
    below = ", ".join([*status, *([f"{gone} diverged"] if gone else [])])
    found.append(Entry(count, None if cell.refused else ended, below=below))
    if has_tuned(results):
        value = tuned(results, cell)
        found.append(Entry(value or NONE, sort_key(value)))
    for one in cell.judged:
        if one is None:
            found += [Entry(NONE, None)] * 2
            continue
        found.append(Entry(format_mean(one.mean, one.low, one.high), one.mean))
        difference = format_difference(one.difference, one.difference_low, one.difference_high)
        p = one.p_corrected
        significance = "" if p is None else format_p(p).replace(" ", "\N{NO-BREAK SPACE}")
        below = ", ".join(filter(None, (one.verdict, significance)))
        found.append(Entry(difference, one.difference, below=below, verdict=one.verdict))
    return found + [
        Entry(write(cell.mean(key)), cell.mean(key)) for key, (_, write) in costs(results).items()
    ]


def sort_key(text: str) -> float | str | None:
    """A number if the text is one; None if it is empty."""
    try:
        return float(text)
    except ValueError:
        return text or None


@dataclass(frozen=True)
class Table:
    """What a table shows, or why there is none; the titles of its columns, whether each has
    numbers, and its lines.
    """

    caption: str
    heads: Sequence[str] = ()
    numeric: Sequence[bool] = ()
    lines: list[list[str]] = field(default_factory=list)


def interactions(results: Results) -> Iterator[Table]:
    """Whether the effect of one axis depends on another, for each metric and pair of axes: a line
    for each difference between effects.
    """
    for metric, pairs in results.dependences.items():
        for one in pairs:
            first, second = (results.axis_name(axis) for axis in one.axes)
            there = f"effect at {results.baseline[one.axes[1]]}"
            yield Table(
                f"{metric}: {one.sentence}.",
                (first, second, "effect there", there, "difference", "p"),
                (False, False, True, True, True, False),
                [
                    [
                        *found.labels.values(),
                        *(
                            NONE if effect is None else format_signed(effect, 3)
                            for effect in effects(found)
                        ),
                        difference(found),
                        "; ".join(
                            [
                                *([format_p(found.p_corrected)] if found.p_corrected else []),
                                *found.notes,
                            ]
                        )
                        or NONE,
                    ]
                    for found in one.found
                ],
            )


def effects(one: Judged) -> tuple[float | None, float | None]:
    """The effect of the first axis at the value of the second, and at the baseline's."""
    if one.mean is None or one.difference is None:
        return None, None
    return one.mean, one.mean - one.difference


def repeats(results: Results) -> Iterator[Table]:
    """Whether verdicts held in a repeat with other seeds, for each metric: the difference to the
    baseline twice, the repeat's p, and the outcome.
    """
    for found in results.repeats:
        yield Table(
            f"{summary(found)}.",
            ("", "first", "again", "p", "outcome"),
            (False,) * 5,
            [
                [
                    results.title(one.first),
                    *differences(one),
                    NONE if one.p is None else format_p(one.p),
                    one.outcome,
                ]
                for one in found.all
            ],
        )


def summary(found: Repeats) -> str:
    """``val/loss with seeds 6 to 10 after 1 to 5: of 4 verdicts 2 held, 2 not confirmed``."""
    return (
        f"{found.metric} with seeds {spans(found.again_seeds)} after {spans(found.first_seeds)}: "
        f"{found.sentence}"
    )


def differences(one: Repeat) -> list[str]:
    """The difference with its interval and mark, by the first runs and by the repeat."""
    return [difference(judged) for judged in (one.first, one.again)]


def spans(seeds: Sequence[int]) -> str:
    """``1 to 5, 8``."""
    parts: list[list[int]] = []
    for seed in seeds:
        if parts and seed == parts[-1][-1] + 1:
            parts[-1].append(seed)
        else:
            parts.append([seed])
    return ", ".join(
        f"{part[0]} to {part[-1]}" if len(part) > 1 else f"{part[0]}" for part in parts
    )


def swapped(results: Results) -> Table:
    """What a part that was swapped in a trained model costs at once; no lines unless training began
    with trained weights, which are validated before the first step.

    A swap is made good at the first validation that is no worse, but for the sweep's margin, than
    that of the same seed's baseline before its first step.
    """
    judged = results.verdicts[0]
    metric, found = validated(results)
    curves = {run: curve for run, curve in found.items() if 0 in curve}
    same = metric.rpartition("/")[2] == judged.metric.rpartition("/")[2]
    margin = judged.design.margin if same else None
    sign = 1 if metric.endswith("loss") or judged.mode == "min" else -1
    unchanged = [cell.name for cell in results.cells if cell.labels == results.baseline]
    goals = {}
    for (name, seed), curve in curves.items():
        if name in unchanged:
            unit = abs(curve[0]) if margin and margin.is_share else 1.0
            goals[seed] = sign * curve[0] + (margin.value * unit if margin else 0.0)
    lines = []
    for cell in results.cells:
        own = {seed: curves[cell.name, seed] for seed in goals if (cell.name, seed) in curves}
        good = [
            next((str(at) for at in sorted(curve) if sign * curve[at] <= goals[seed]), "not")
            for seed, curve in sorted(own.items())
        ]
        if own:
            at_once = format_value(mean(curve[0] for curve in own.values()))
            lines.append([cell.title, at_once, ", ".join(good)])
    within = ", or worse by at most the sweep's margin" if margin else ""
    return Table(
        f"Training began with trained weights. {metric} before the first step, the mean over "
        "seeds, and the first validation that is as good as the baseline's before its first step"
        f"{within}.",
        ("", "before the first step", "made good after steps, by seed"),
        (False, True, True),
        lines,
    )


def sign(one: Judged) -> str:
    """``▲`` better, ``▼`` worse, ``■`` equivalent, hollow if it is a hint; ``""`` for other
    verdicts.
    """
    return (HINTS if one.is_hint else SIGNS).get(one.verdict, "")


def difference(one: Judged) -> str:
    """``−0.12 (−0.20 to −0.04) ▲``."""
    text = format_interval(one.difference, one.difference_low, one.difference_high)
    return f"{text} {sign(one)}".strip()
