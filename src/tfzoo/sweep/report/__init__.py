"""The report of a sweep: ``runs.csv``, ``report.html`` and ``report.md``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tfzoo.runs.files import replace_text
from tfzoo.sweep.report import looks
from tfzoo.sweep.report.markdown import markdown
from tfzoo.sweep.report.page import page
from tfzoo.sweep.report.results import Results, gather
from tfzoo.sweep.report.sections import Section, sections
from tfzoo.sweep.run.runs_csv import FILE, write_csv


def write(folders: Sequence[str | Path]) -> list[Path]:
    """Write the report of one or more folders of a sweep into the first; returns its files.

    Raises:
        BadRun: a folder is not a sweep's, or of another sweep than the first.
    """
    results = gather(folders)
    return save(results, sections(results))


def save(results: Results, shown: Sequence[Section]) -> list[Path]:
    """Write the files into the first folder, each whole or not at all."""
    top = results.folders[0].path
    write_csv(results.rows, top / FILE)
    replace_text(top / "report.html", page(results, shown))
    replace_text(top / "report.md", markdown(results, shown))
    if len(results.folders) == 1 and any(
        one.difference is not None for found in results.verdicts for one in found.cells
    ):
        looks.record(results.folders[0])
    return [top / FILE, top / "report.html", top / "report.md"]
