"""A page that says something without maps of attention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tfzoo.plots.pages.render import render

ANSWER = Path(__file__).parent / "answer.html"


def message_page(title: str, said: Mapping[str, str], notes: Sequence[str]) -> str:
    """A page without maps."""
    return render(ANSWER, title=title, facts=said, notes=notes)
