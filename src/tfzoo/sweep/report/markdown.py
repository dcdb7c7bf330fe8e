"""``report.md``: the text and tables of the page, for a paper or a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tfzoo.sweep.report.answer import answer
from tfzoo.sweep.report.results import Results
from tfzoo.sweep.report.sections import Section, Table

SPECIAL = re.compile(r"([\\`*_\[\]<>|#~])")


def markdown(results: Results, shown: Sequence[Section]) -> str:
    """The report. Text from files is escaped and cannot create links or markup."""
    lines = [
        f"# {escape(results.name)}",
        "",
        *(f"- {escape(one)}" for one in answer(results)),
    ]
    if claim := results.file.get("claim"):
        lines += ["", escape(str(claim))]
    for section in shown:
        if section.lines or section.table:
            lines += ["", f"## {escape(section.title)}", ""]
            lines += [f"- {escape(line)}" for _, line in section.lines]
        if section.table:
            lines += [*([""] if section.lines else []), *table(section.table)]
    links = "Plots: [report.html](report.html). One row per run: [runs.csv](runs.csv)."
    return "\n".join([*lines, "", links, ""])


def table(shown: Table) -> Iterator[str]:
    """The lines of a table; numbers are aligned to the right."""
    yield f"| {' | '.join(map(escape, shown.heads))} |"
    yield f"|{'|'.join('---:' if one else '---' for one in shown.numeric)}|"
    for row in shown.rows:
        entries = [f"{one.text} ({one.below})" if one.below else one.text for one in row]
        yield f"| {' | '.join(map(escape, entries))} |"


def escape(text: str) -> str:
    """Escaped text on one line. Underscores within words need no escape."""
    shown = SPECIAL.sub(r"\\\1", " ".join(text.split()))
    shown = re.sub(r"(?<=\w)\\_(?=\w)", "_", shown)
    # A sign that is followed by a space opens no tag.
    return re.sub(r"\\([<>])(?=\s)", r"\1", shown).replace("\\<", "&lt;").replace("\\>", "&gt;")
