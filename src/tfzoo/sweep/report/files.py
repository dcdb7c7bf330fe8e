"""The report of a sweep: ``runs.csv``, ``report.html`` and ``report.md``, and what is printed."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from tfzoo.base.files import replace_text
from tfzoo.base.terminal import aligned, print_result, relative_path
from tfzoo.errors import TfzooError
from tfzoo.plots.style import render
from tfzoo.sweep.report.answer import answer
from tfzoo.sweep.report.results import Results, record_look
from tfzoo.sweep.report.sections import (
    MADE,
    SIGNS,
    Section,
    Table,
    cells,
    sections,
)
from tfzoo.sweep.run.runs_csv import FILE, write_csv

TEMPLATE = Path(__file__).parent / "page.html"
SPECIAL = re.compile(r"[\\`*\[\]|#~]|(?<![^\W_])_|_(?![^\W_])")
"""What Markdown reads as markup; underscores within words are none."""


def publish(results: Results) -> None:
    """Print the answer, a table of all cells and the sentences of a report; write its files."""
    shown = sections(results)
    for line in (*answer(results), "", *cells_table(results)):
        print_result(line)
    for section in shown:
        if section.lines and section.title != MADE:
            lines = ["", section.title, *(f"  {line}" for _, line in section.lines)]
            print_result("\n".join(lines))
    top = results.folder.path
    texts = {"report.html": page(results, shown), "report.md": markdown(results, shown)}
    try:
        write_csv(results.rows, top / FILE)
        for name, text in texts.items():
            replace_text(top / name, text)
    except OSError as error:
        raise TfzooError(f"cannot write the report into {top}: {error.strerror or error}") from None
    for name in (FILE, *texts):
        print_result(relative_path(top / name))
    if any(one.difference is not None for found in results.verdicts for one in found.cells):
        record_look(results.folder)


def cells_table(results: Results) -> Iterator[str]:
    """The lines of the table of all cells, up to what is said by the first metric."""
    whole = cells(results)
    end = whole.heads.index(results.verdicts[0].metric) + 2
    return aligned([whole.heads[:end], *([*map(str, row[:end])] for row in whole.rows)])


def page(results: Results, shown: Sequence[Section]) -> str:
    """``report.html``: one self-contained page, which opens from disk without a network. Text from
    files is escaped; no script but the page's own can run.
    """
    return render(TEMPLATE, results=results, answer=answer(results), sections=shown, signs=SIGNS)


def markdown(results: Results, shown: Sequence[Section]) -> str:
    """``report.md``: the text and tables of the page, for a paper or a pull request. Text from
    files is escaped and cannot create links or markup.
    """
    lines = [f"# {escape(results.name)}", "", *(f"- {escape(one)}" for one in answer(results))]
    if results.plan.claim:
        lines += ["", escape(results.plan.claim)]
    for section in shown:
        if section.lines or section.table:
            lines += ["", f"## {escape(section.title)}", ""]
            lines += [f"- {escape(line)}" for _, line in section.lines]
        if section.table:
            lines += table(section.table)
    links = "Plots: [report.html](report.html). One row per run: [runs.csv](runs.csv)."
    return "\n".join([*lines, "", links, ""])


def table(shown: Table) -> Iterator[str]:
    """The lines of a table; numbers are aligned to the right."""
    yield f"| {' | '.join(map(escape, shown.heads))} |"
    yield f"|{'|'.join('---:' if one else '---' for one in shown.numeric)}|"
    for row in shown.rows:
        yield f"| {' | '.join(escape(str(one)) for one in row)} |"


def escape(text: str) -> str:
    """Escaped text on one line."""
    shown = SPECIAL.sub(r"\\\g<0>", " ".join(text.split()))
    # A sign that is followed by a space opens no tag.
    return re.sub(r"<(?!\s)", "&lt;", re.sub(r">(?!\s)", "&gt;", shown))
