"""The report of a sweep: ``runs.csv``, ``report.html`` and ``report.md``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tfzoo.runs.files import replace_text
from tfzoo.sweep.report import looks
from tfzoo.sweep.report.markdown import markdown
from tfzoo.sweep.report.page import page
from tfzoo.sweep.report.results import Results, gather
from tfzoo.sweep.run.runs_csv import FILE, write_csv


def write(folders: Sequence[str | Path]) -> list[Path]:
    """Write the report of one or more folders of a sweep into the first; returns its files.

    Raises:
        BadRun: a folder is not a sweep's, or of another sweep than the first.
    """
    return save(gather(folders))


def save(results: Results) -> list[Path]:
    """Write the files into the first folder, each whole or not at all."""
    top = results.folders[0].path
    write_csv(results.rows, top / FILE)
    paths = [top / FILE]
    texts = {"report.html": page(results), "report.md": markdown(results)}
    for name, text in texts.items():
        replace_text(top / name, text)
        paths.append(top / name)
    if len(results.folders) == 1 and any(
        one.difference is not None for found in results.verdicts for one in found.cells
    ):
        looks.record(results.folders[0])
    return paths
