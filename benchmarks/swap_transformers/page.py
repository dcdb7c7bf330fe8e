"""The rows of which the site makes a page."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.swap_transformers.comparison import Row

PATH = Path(__file__).with_name("rows.csv")
CHECKED = "transformers 5.23.0, PyTorch 2.13.0"
"""The versions of which the rows are."""
COLUMNS = ("attention", "model", "outcome", "reason")


def read() -> list[dict[str, str]]:
    """The rows that were written."""
    with PATH.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def write(rows: list[Row]) -> None:
    """Write rows, sorted by class."""
    with PATH.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(COLUMNS)
        for row in sorted(rows, key=lambda row: (row.attention.lower(), row.model)):
            writer.writerow([getattr(row, column) for column in COLUMNS])
