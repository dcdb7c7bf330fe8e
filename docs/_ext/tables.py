"""Markdown tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], right: int = 0) -> str:
    """A table, whose last ``right`` columns are of numbers."""
    left = len(headings) - right
    lines = [headings, ["---"] * left + ["---:"] * right, *rows]
    return "\n".join(f"| {' | '.join(cell(text) for text in line)} |" for line in lines)


def cell(text: str) -> str:
    """A text without what would end a cell."""
    return text.replace("\n", " ").replace("|", "\\|")


def code(text: str) -> str:
    """A text as code."""
    return f"`{text}`"
