"""The table of all cells: scores, differences to the baseline, and costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tfzoo.sweep.judge.sentences import format_p
from tfzoo.sweep.report.facts import has_tuned, tuned
from tfzoo.sweep.report.numbers import (
    NONE,
    format_difference,
    format_mean,
    format_memory,
    format_value,
)
from tfzoo.sweep.report.results import CellResult, Results


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


def columns(results: Results) -> list[tuple[str, bool]]:
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


def entries(results: Results, cell: CellResult) -> list[Entry]:
    """The fields of a cell, in the order of the columns."""
    found = [Entry(label, label, "label") for label in cell.labels.values()]
    count = NONE if cell.refused else f"{len(cell.done)}/{len(cell.rows)}"
    status = "" if cell.status == "completed" else cell.status
    found.append(Entry(count, None if cell.refused else len(cell.done), below=status))
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
