"""Reads the values that a run has logged, the rows of ``metrics.csv`` in its folder."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

FILE = "metrics.csv"


def logged_values(folder: Path) -> Iterator[tuple[str, int, float]]:
    """Metric, number of the optimiser step, from 1, and value, in the order of the file. A last row
    without its line break is left out: whoever wrote it was killed, or is still writing it.

    Raises:
        OSError: there is no file, or it cannot be read.
        ValueError, TypeError, KeyError: a row is damaged.
    """
    complete, _, _ = (folder / FILE).read_bytes().rpartition(b"\n")
    for row in csv.DictReader(complete.decode("utf-8").splitlines()):
        for key, value in row.items():
            if key and value and key not in ("step", "epoch"):
                yield key, int(row["step"]), float(value)


def logged_curves(folder: Path) -> dict[str, dict[int, float]]:
    """The values of each metric by step, as far as there is a file and it is not damaged."""
    found: dict[str, dict[int, float]] = defaultdict(dict)
    with suppress(OSError, ValueError, TypeError, KeyError):
        for name, step, value in logged_values(folder):
            found[name][step] = value
    return dict(found)
