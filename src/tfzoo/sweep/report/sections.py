"""What a report shows after its answer, as sections that the page and the text print alike: a table
of all cells, a picture of the effects, then details, the last of which is how the sweep was made.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tfzoo.base.values import readable
from tfzoo.sweep.judge.effects import NO_BETTER, listed
from tfzoo.sweep.judge.sentences import decimals, format_p
from tfzoo.sweep.judge.verdicts import DECIDED, Judged, Verdicts, summary
from tfzoo.sweep.plan.sweep_file import text
from tfzoo.sweep.report import figures
from tfzoo.sweep.report.results import CellResult, Results
from tfzoo.sweep.run.state import ENDED

NONE = "–"


def format_value(value: float) -> str:
    """Four significant digits; large numbers with commas."""
    if math.isfinite(value) and abs(value) >= 10_000:
        return f"{value:,.0f}"
    return f"{value:.4g}".replace("-", "\N{MINUS SIGN}")


def format_mean(mean: float | None, low: float | None, high: float | None) -> str:
    """A mean with half the width of its interval: ``2.013 ± 0.04``."""
    if mean is None:
        return NONE
    if low is None or high is None:
        return format_value(mean)
    half = (high - low) / 2
    digits = decimals(-half, half)
    return f"{mean:,.{digits}f} ± {half:,.{digits}f}".replace("-", "\N{MINUS SIGN}")


def format_difference(
    value: float | None, low: float | None, high: float | None
) -> tuple[str, str]:
    """A difference, ``-0.12``, and its interval, ``-0.20 to -0.04``, ``""`` if it has none; 0 has
    no sign.
    """
    if value is None:
        return NONE, ""
    digits = 3 if low is None or high is None else decimals(low, high)
    first, *ends = (
        f"{one:{'+' * bool(round(one, digits))}z,.{digits}f}".replace("-", "\N{MINUS SIGN}")
        for one in (value, low, high)
        if one is not None
    )
    return first, " to ".join(ends)


COSTS: dict[str, tuple[str, Callable[[float], str]]] = {
    "parameters": ("Parameters", format_value),
    "tokens_per_second": ("Training tokens/s", format_value),
    "peak_memory": ("Peak memory", readable),
    "train_seconds": ("Training s", format_value),
}
"""Columns of ``runs.csv`` that are shown where they were measured, with title and format."""
SIGNS = {"better": "▲", "worse": "▼", "equivalent": "■", "not yet known": "○", "baseline": "◆"}
INCOMPLETE = (*NO_BETTER, "failed", "missing")
"""What becomes of runs that do not complete."""
MADE = "How it was made"
LEGEND = (
    "all 95 % intervals of a metric's differences together hold in 95 of 100 sweeps (each has the "
    "level 1 - 0.05 / comparisons). p and verdicts are corrected for all comparisons of a metric "
    "(Holm's method, which is sharper than the intervals; family-wise error rate 5 %). Where looks "
    "are declared, verdicts and intervals hold at all of them together; p is sequential, the "
    "smallest so far."
)
"""How verdicts and intervals are to be read."""
HINTS = {"better": "△", "worse": "▽", "equivalent": "□"}


@dataclass(frozen=True)
class Entry:
    """A field of a table: its text, the number by which it is sorted (else the text is; None is
    last), smaller text below, and the verdict whose mark it shows.
    """

    text: str
    key: float | str | None = None
    below: str = ""
    verdict: str = ""

    def __str__(self) -> str:
        return f"{self.text} ({self.below})" if self.below else self.text


@dataclass(frozen=True)
class Table:
    """The titles of the columns, and the rows."""

    heads: list[str]
    rows: list[list[Entry]]

    @property
    def numeric(self) -> list[bool]:
        """Whether each column has numbers."""
        columns = zip(*self.rows, strict=True)
        return [any(isinstance(one.key, float | int) for one in column) for column in columns]


@dataclass(frozen=True)
class Section:
    """A title, sentences with the verdict whose mark they have, a picture and a table."""

    title: str
    lines: Sequence[tuple[str, str]] = ()
    table: Table | None = None
    picture: str | None = None
    is_folded: bool = True


def sections(results: Results) -> list[Section]:
    """All sections that show something."""
    shown = figures.best_cells(results)
    is_cut = len(results.cells) > figures.MAX_CELLS
    cut = f" (the baseline and the best {len(shown) - 1})" * is_cut
    first, *others = results.verdicts
    found = [
        Section("All cells", table=cells(results), is_folded=False),
        Section(f"Effects{cut}", (), None, figures.forest(results, first, shown), is_folded=False),
        of_metric(first, [one.sentence for one in first.diverged if one.p < 1]),
        *(
            of_metric(
                one, [f"{one.smallest}."] * bool(one.smallest), figures.forest(results, one, shown)
            )
            for one in others
        ),
        Section(
            "Does the effect of one axis depend on another?",
            [
                ("", f"{metric}: {one.sentence}.")
                for metric, pairs in results.dependences.items()
                for one in pairs
            ],
        ),
        Section("Again with other seeds", again(results)),
        Section("What is missing or went wrong", troubles(results)),
        Section(f"Learning curves{cut}", picture=figures.curves(results, shown)),
        Section(MADE, [("", f"{name}: {text}") for name, text in facts(results)]),
    ]
    return [one for one in found if one.lines or one.table or one.picture]


def cells(results: Results) -> Table:
    """A row for each cell: its labels, how many runs ended, its score and difference to the
    baseline by each metric, and what it costs.
    """
    tuned = results.plan.tune.key if results.plan.tune else ""
    costs = {
        key: cost
        for key, cost in COSTS.items()
        if any(cell.mean(key) is not None for cell in results.cells)
    }
    heads = [*map(results.axis_name, results.plan.axes), "Runs", *([tuned] if tuned else [])]
    for found in results.verdicts:
        sequential = "sequential " * bool(found.design.looks)
        heads += [found.metric, f"Difference (95 % CI), {sequential}p after Holm"]
    rows = []
    for cell in results.cells:
        row = [*map(Entry, cell.labels.values(), cell.labels.values()), runs(cell)]
        if tuned:
            values = ", ".join(sorted({str(one["tuned"]) for one in cell.done}))
            row.append(Entry(values or NONE, values))
        for judged in cell.judged:
            row += score(judged)
        for key, (_, form) in costs.items():
            mean = cell.mean(key)
            row.append(Entry(NONE if mean is None else form(mean), mean))
        rows.append(row)
    return Table([*heads, *(words for words, _ in costs.values())], rows)


def runs(cell: CellResult) -> Entry:
    """How many runs of a cell ended, and what became of the others."""
    if cell.refused:
        return Entry(NONE, None, "refused")
    count = Counter(row["status"] for row in cell.rows)
    ended = sum(count[one] for one in ENDED)
    others = [f"{count[one]} {one}" for one in INCOMPLETE if count[one]]
    return Entry(f"{ended}/{len(cell.rows)}", ended, ", ".join(others))


def score(one: Judged) -> list[Entry]:
    """The mean of a cell, and its difference to the baseline with verdict and p."""
    p = "" if one.p_corrected is None else format_p(one.p_corrected)
    text, ends = format_difference(one.difference, one.difference_low, one.difference_high)
    below = ", ".join(filter(None, (ends, "a hint: " * one.is_hint + one.verdict, p)))
    mean = Entry(format_mean(one.mean, one.low, one.high), one.mean)
    return [mean, Entry(text, one.difference, below, one.verdict)]


def of_metric(found: Verdicts, more: Sequence[str], picture: str | None = None) -> Section:
    """The sentences of one metric on the values of axes, and on those cells of a grid of which the
    table does not say all; then ``more``.
    """
    judged = [one for one in found.axes if one.verdict != "baseline" and one.pairs]
    judged += [one for one in found.cells if found.is_grid and (one.depends or one.notes)]
    lines: list[tuple[str, str]] = [
        (one.verdict, "; ".join([one.sentence, *one.notes])) for one in judged
    ]
    lines += [("", text) for text in (*more, *(f"note: {one}." for one in found.notes))]
    better = "lower" if found.mode == "min" else "higher"
    return Section(f"{found.metric}, {better} is better", lines, picture=picture)


def again(results: Results) -> list[tuple[str, str]]:
    """Whether verdicts held in a repeat with other seeds, by each metric."""
    lines = []
    for metric, found in results.repeats.items():
        lines.append(("", f"{metric}: {summary(found)}."))
        for one in found:
            p = "no test" if one.p is None else f"{format_p(one.p)} after Holm, one-sided"
            first, second = difference(one.first), difference(one.again)
            text = f"{results.title(one.first)}: {one.outcome}: first {first}, again {second}, {p}"
            lines.append((one.first.verdict, text))
    return lines


def difference(one: Judged) -> str:
    """``−0.12 (−0.20 to −0.04) ▲``."""
    text, ends = format_difference(one.difference, one.difference_low, one.difference_high)
    return f"{Entry(text, below=ends)} {sign(one)}".strip()


def sign(one: Judged) -> str:
    """``▲`` better, ``▼`` worse, ``■`` equivalent, hollow if it is a hint; ``""`` for other
    verdicts.
    """
    return (HINTS if one.is_hint else SIGNS)[one.verdict] if one.verdict in DECIDED else ""


def troubles(results: Results) -> list[tuple[str, str]]:
    """What refused cells and runs that did not complete came to: a line for each reason, with all
    that it is the reason of.
    """
    alike: dict[tuple[str, str], list[str]] = {}
    for cell in results.cells:
        own: dict[tuple[str, str], list[int]] = {}
        for row in cell.rows:
            if row["status"] != "completed":
                why = row["reason"] or "not started, or not finished"
                own.setdefault((row["status"], why), []).append(row["seed"])
        for became, seeds in own.items():
            seeds_too = "" if cell.refused else f" {listed(seeds)}"
            alike.setdefault(became, []).append(cell.title + seeds_too)
    return [("", f"{status}: {'; '.join(names)}: {why}") for (status, why), names in alike.items()]


def facts(results: Results) -> list[tuple[str, str]]:
    """The title and the text of each line: the sweep file as it was read, but for what the report
    has said already, then what it ran on. Values that differ between runs are listed with the
    number of runs.
    """
    of_runs = [one.get("fit", {}) for one in results.folder.summaries()]
    file = results.plan.to_dict()
    found = {
        **{key: text(file[key]) for key in file if key not in ("axes", "claim")},
        "command": results.folder.command,
        "versions": counted(
            ", ".join(f"{name} {of}" for name, of in one.get("versions", {}).items())
            for one in of_runs
        ),
        "hardware": counted(machine(one.get("hardware") or {}) for one in of_runs),
        "how to read it": LEGEND,
    }
    return [(name, words) for name, words in found.items() if words]


def machine(hardware: dict[str, Any]) -> str:
    """``AMD EPYC, 2 cores, 1 threads``."""
    parts = [str(hardware.get("cpu") or ""), *hardware.get("gpus", [])]
    parts += [f"{hardware[key]} {key}" for key in ("cores", "threads") if hardware.get(key)]
    return ", ".join(filter(None, parts))


def counted(words: Iterable[str]) -> str:
    """The common value, or each value with the number of runs that have it."""
    kinds = Counter(word for word in words if word)
    if len(kinds) < 2:
        return "".join(kinds)
    return "; ".join(f"{word} ({count} runs)" for word, count in kinds.most_common())
