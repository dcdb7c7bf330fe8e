"""The report of a sweep: ``runs.csv``, ``report.html`` and ``report.md``, and what is printed."""

from __future__ import annotations

from tfzoo.base.terminal import print_result, relative_path
from tfzoo.runs.files import replace_text
from tfzoo.sweep.report import looks
from tfzoo.sweep.report.answer import answer
from tfzoo.sweep.report.markdown import markdown
from tfzoo.sweep.report.page import page
from tfzoo.sweep.report.results import Results
from tfzoo.sweep.report.sections import MADE, sections
from tfzoo.sweep.run.runs_csv import FILE, write_csv


def publish(results: Results) -> None:
    """Print the answer and the sentences of a report, and write its files."""
    shown = sections(results)
    for line in answer(results):
        print_result(line)
    for section in shown:
        if section.lines and section.title != MADE:
            print_result("\n".join([section.title, *(f"  {line}" for _, line in section.lines)]))
    top = results.folder.path
    write_csv(results.rows, top / FILE)
    texts = {"report.html": page(results, shown), "report.md": markdown(results, shown)}
    for name, text in texts.items():
        replace_text(top / name, text)
    for name in (FILE, *texts):
        print_result(relative_path(top / name))
    if any(one.difference is not None for found in results.verdicts for one in found.cells):
        looks.record(results.folder)
