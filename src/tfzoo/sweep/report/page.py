"""``report.html``: one self-contained page, which opens from disk without a network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tfzoo.plots.pages.render import render
from tfzoo.sweep.report.answer import answer
from tfzoo.sweep.report.results import Results
from tfzoo.sweep.report.sections import SIGNS, Section

TEMPLATE = Path(__file__).parent / "page.html"


def page(results: Results, shown: Sequence[Section]) -> str:
    """The page. Text from files is escaped; no script but the page's own can run."""
    return render(
        TEMPLATE,
        results=results,
        answer=answer(results),
        sections=shown,
        signs=SIGNS,
    )
