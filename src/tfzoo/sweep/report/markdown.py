"""``report.md``: the same as the page, without pictures, for a paper or a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from tfzoo.sweep.judge import Judged, Verdicts
from tfzoo.sweep.report import cells, facts
from tfzoo.sweep.report.heat import grids
from tfzoo.sweep.report.page import several
from tfzoo.sweep.results import Results

SPECIAL = re.compile(r"([\\`*_\[\]<>|#~])")


def markdown(results: Results) -> str:
    """The whole text. What comes from files is escaped: it makes neither links nor markup."""
    lines = [f"# {plain(results.name)}", ""]
    if claim := results.file.get("claim"):
        lines += [plain(str(claim)), ""]
    lines += [f"- {name}: {plain(words)}" for name, words in facts.facts(results)]
    lines += ["", "## What it showed", ""]
    for number, verdicts in enumerate(results.verdicts):
        lines += answer(results, verdicts, results.notes if not number else [])
    if compared := results.translations.compared:
        lines += ["### BLEU on other sentences (paired bootstrap on the test set)", ""]
        lines += [f"- {plain(one.sentence + ('; '.join(['', *one.notes])))}" for one in compared]
        lines += [f"- Note: {plain(note)}" for note in results.translations.notes] + [""]
    lines += ["## The grid", "", *grid(results)]
    lines += ["## All cells", ""]
    heads = cells.columns(results)
    rows = [[entry.text for entry in cells.entries(results, cell)] for cell in results.cells]
    lines += [*table([name for name, _ in heads], rows, [numeric for _, numeric in heads]), ""]
    if troubles := facts.troubles(results):
        lines += ["## Refused, failed and missing", ""]
        lines += [
            f"- {plain(which)}: {status}: {plain(reason)}" for which, status, reason in troubles
        ] + [""]
    lines += ["## How it was made", ""]
    lines += [
        f"- {plain(name)}: {code(words) if name == 'Command' else plain(words)}"
        for name, words in facts.made_with(results)
    ]
    return "\n".join(
        [
            *lines,
            "",
            "Pictures: [report.html](report.html). All runs, a row each: [runs.csv](runs.csv).",
            "",
        ]
    )


def answer(results: Results, verdicts: Verdicts, notes: Sequence[str]) -> Iterator[str]:
    """The sentences of one metric."""
    yield f"### {plain(verdicts.metric)} ({'lower' if verdicts.mode == 'min' else 'higher'} is better)"
    yield ""
    if several(results):
        yield from (f"- {sentence(one)}" for one in verdicts.axes if one.verdict != "baseline")
        yield from ("", "Each cell against the baseline:", "")
    yield from (f"- {sentence(one)}" for one in verdicts.cells if one.verdict != "baseline")
    yield ""
    for note in (*verdicts.notes, *notes):
        yield from (f"Note: {plain(note)}.", "")


def sentence(one: Judged) -> str:
    """With what is missing."""
    return plain(one.sentence + (f" ({'; '.join(one.notes)})" if one.notes else ""))


def grid(results: Results) -> Iterator[str]:
    """The heat map as a table."""
    for one in grids(results):
        if caption := ", ".join(filter(None, (one.metric, one.title))):
            yield from (f"{plain(caption)}:", "")
        corner = " \\ ".join(filter(None, (one.rows_axis, one.columns_axis)))
        rows = [
            [label, *(f"{field.text} {field.below}".strip() if field else "" for field in row)]
            for label, row in one.rows
        ]
        yield from table([corner, *one.columns], rows, [False, *[True] * len(one.columns)])
        yield ""


def table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], numeric: Sequence[bool]
) -> Iterator[str]:
    """Lines of a table; numbers to the right."""
    yield f"| {' | '.join(map(plain, heads))} |"
    yield f"|{'|'.join('---:' if one else '---' for one in numeric)}|"
    yield from (f"| {' | '.join(map(plain, row))} |" for row in rows)


def plain(text: str) -> str:
    """On one line, and shown as it is. An underscore inside a word needs no help."""
    shown = SPECIAL.sub(r"\\\1", " ".join(text.split()))
    return re.sub(r"(?<=\w)\\_(?=\w)", "_", shown).replace("\\<", "&lt;").replace("\\>", "&gt;")


def code(text: str) -> str:
    """A command."""
    return f"`` {' '.join(text.split())} ``" if "`" in text else f"`{' '.join(text.split())}`"
