"""The table of all cells: what each scored and what it cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tfzoo.sweep.report.facts import has_tuned, tuned
from tfzoo.sweep.report.numbers import around, chance, gap, memory, short
from tfzoo.sweep.results import Cell, Results

COSTS: dict[str, tuple[str, Callable[[float | None], str]]] = {
    "parameters": (
        "Parameters",
        lambda value: short(None if value is None else float(round(value))),
    ),
    "tokens_per_second": (
        "Training tokens/s",
        lambda value: short(None if value is None else float(round(value))),
    ),
    "decoded_per_second": (
        "Decoded/s",
        lambda value: short(None if value is None else float(round(value))),
    ),
    "peak_memory": ("Peak memory", memory),
    "train_seconds": ("Training s", short),
}


@dataclass(frozen=True)
class Entry:
    """A field of the table: what it shows and what it is sorted by (None: last, whichever way)."""

    text: str
    key: float | str | None
    kind: str = ""


def columns(results: Results) -> list[tuple[str, bool]]:
    """Their titles, and which are of numbers."""
    found = [(results.short(axis), False) for axis in results.axes]
    found += [("Status", False), ("Seeds", True)]
    if key := has_tuned(results):
        found.append((f"Tuned {key}", True))
    for verdicts in results.verdicts:
        found += [(verdicts.metric, True), ("Difference", True), ("p", True), ("Verdict", False)]
    return found + [(words, True) for words, _ in shown(results).values()]


def shown(results: Results) -> dict[str, tuple[str, Callable[[float | None], str]]]:
    """The costs that were measured."""
    return {
        key: one
        for key, one in COSTS.items()
        if any(cell.mean(key) is not None for cell in results.cells)
    }


def entries(results: Results, cell: Cell) -> list[Entry]:
    """The line of a cell."""
    found = [Entry(label, label, "label") for label in cell.labels.values()]
    found.append(Entry(cell.status, cell.status, f"status {cell.status}"))
    found.append(
        Entry(
            f"{len(cell.done)}/{len(cell.rows)}" if not cell.refused else "–",
            None if cell.refused else len(cell.done),
        )
    )
    if has_tuned(results):
        value = tuned(results, cell)
        found.append(Entry(value or "–", number(value)))
    for one in cell.judged:
        if one is None:
            found += [Entry("–", None)] * 4
            continue
        found.append(Entry(around(one.mean, one.low, one.high), one.mean))
        found.append(
            Entry(gap(one.difference, one.difference_low, one.difference_high), one.difference)
        )
        found.append(Entry(chance(one.p_corrected), one.p_corrected))
        found.append(Entry(one.verdict, one.verdict, "verdict"))
    return found + [
        Entry(write(cell.mean(key)), cell.mean(key)) for key, (_, write) in shown(results).items()
    ]


def number(text: str) -> float | str | None:
    """To sort by."""
    try:
        return float(text)
    except ValueError:
        return text or None
