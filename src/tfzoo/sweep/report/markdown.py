"""``report.md``: the text and tables of the page, for a paper or a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from tfzoo.sweep.judge.verdicts import Judged, Verdicts
from tfzoo.sweep.report import facts, tables
from tfzoo.sweep.report.answer import answer
from tfzoo.sweep.report.results import Results

SPECIAL = re.compile(r"([\\`*_\[\]<>|#~])")


def markdown(results: Results) -> str:
    """The report. Text from files is escaped and cannot create links or markup."""
    lines = [f"# {escape(results.name)}", ""]
    lines += [f"- {escape(line)}" for line in answer(results)] + [""]
    if claim := results.file.get("claim"):
        lines += [escape(str(claim)), ""]
    lines += [f"- {name}: {escape(words)}" for name, words in facts.facts(results)]
    lines += ["", "## What it showed", ""]
    lines += [code(line), ""] if (line := facts.quote(results)) else []
    for number, verdicts in enumerate(results.verdicts):
        lines += by_metric(results, verdicts, results.notes if not number else [])
    lines += section("### Again with other seeds", tables.repeats(results))
    lines += section(
        "### Does the effect of one axis depend on another?", tables.interactions(results)
    )
    lines += [escape(facts.legend(results)), ""]
    swapped = tables.swapped(results)
    lines += section("## What a swap costs at once", [swapped] if swapped.lines else [])
    lines += ["## All cells", ""]
    heads = tables.cell_columns(results)
    rows = [[entry.whole for entry in tables.cell_entries(results, cell)] for cell in results.cells]
    lines += [*table([name for name, _ in heads], rows, [numeric for _, numeric in heads]), ""]
    if troubles := facts.troubles(results):
        lines += ["## Refused, failed and missing", ""]
        lines += [
            f"- {escape(which)}: {status}: {escape(reason)}" for which, status, reason in troubles
        ] + [""]
    lines += ["## How it was made", ""]
    lines += [
        f"- {escape(name)}: {code(words) if name == 'Command' else escape(words)}"
        for name, words in facts.made_with(results)
    ]
    return "\n".join(
        [
            *lines,
            "",
            "Plots: [report.html](report.html). One row per run: [runs.csv](runs.csv).",
            "",
        ]
    )


def by_metric(results: Results, verdicts: Verdicts, notes: Sequence[str]) -> Iterator[str]:
    """The sentences of one metric."""
    better = "lower" if verdicts.mode == "min" else "higher"
    yield f"### {escape(verdicts.metric)} ({better} is better)"
    yield ""
    if verdicts.is_grid:
        yield from (f"- {sentence(one)}" for one in verdicts.axes if one.verdict != "baseline")
        yield from ("", "Each cell compared with the baseline:", "")
    yield from (f"- {sentence(one)}" for one in verdicts.cells if one.verdict != "baseline")
    yield from (f"- {escape(one.sentence)}" for one in verdicts.diverged)
    yield ""
    if verdicts.smallest:
        yield from (f"{escape(verdicts.smallest)}.", "")
    for note in (*verdicts.notes, *notes):
        yield from (f"Note: {escape(note)}.", "")


def section(title: str, shown: Iterable[tables.Table]) -> Iterator[str]:
    """Tables with their captions, under a title; nothing if there are none."""
    for number, one in enumerate(shown):
        yield from ([] if number else [title, ""])
        yield from (escape(one.caption), "")
        yield from [*table(one.heads, one.lines, one.numeric), ""] if one.lines else []


def sentence(one: Judged) -> str:
    """The sentence of a comparison, with its notes."""
    return escape(one.sentence + (f" ({'; '.join(one.notes)})" if one.notes else ""))


def table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], numeric: Sequence[bool]
) -> Iterator[str]:
    """The lines of a table; numbers are aligned to the right."""
    yield f"| {' | '.join(map(escape, heads))} |"
    yield f"|{'|'.join('---:' if one else '---' for one in numeric)}|"
    yield from (f"| {' | '.join(map(escape, row))} |" for row in rows)


def escape(text: str) -> str:
    """Escaped text on one line. Underscores within words need no escape."""
    shown = SPECIAL.sub(r"\\\1", " ".join(text.split()))
    shown = re.sub(r"(?<=\w)\\_(?=\w)", "_", shown)
    # A sign that is followed by a space opens no tag.
    return re.sub(r"\\([<>])(?=\s)", r"\1", shown).replace("\\<", "&lt;").replace("\\>", "&gt;")


def code(text: str) -> str:
    """Inline code."""
    return f"`` {' '.join(text.split())} ``" if "`" in text else f"`{' '.join(text.split())}`"
