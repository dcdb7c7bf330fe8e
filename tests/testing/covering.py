"""Covering arrays: few combinations in which every pair (or triple) of parts still occurs.

With 3 to 9 values in each of 6 columns, the full product has thousands of rows; a mistake in how
two parts work together shows in any row that holds both.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TypeVar

import numpy as np

Row = TypeVar("Row", bound=Sequence[str])


def covering(rows: Sequence[Row], strength: int, covered: Sequence[Row] = ()) -> list[Row]:
    """A subset of ``rows`` in which every combination of values of ``strength`` columns occurs that
    occurs in ``rows`` and not in ``covered``.

    Greedy: the row with the most new combinations comes next, the first of several. The result is
    the same in every process.
    """
    if not rows:
        return []
    ids, count = _interactions([*rows, *covered], strength)
    wanted = np.zeros(count, dtype=bool)
    wanted[ids[: len(rows)]] = True
    wanted[ids[len(rows) :]] = False
    ids, chosen = ids[: len(rows)], []
    while True:
        gains = wanted[ids].sum(1)
        best = int(gains.argmax())
        if gains[best] == 0:
            return chosen
        chosen.append(rows[best])
        wanted[ids[best]] = False


def _interactions(rows: Sequence[Row], strength: int) -> tuple[np.ndarray, int]:
    """A number for each combination of ``strength`` columns of each row, and how many there are."""
    values = np.array(rows)
    columns, offset = [], 0
    for chosen in combinations(range(values.shape[1]), strength):
        _, ids = np.unique(values[:, chosen], axis=0, return_inverse=True)
        columns.append(ids.reshape(-1) + offset)
        offset += int(ids.max()) + 1
    return np.stack(columns, 1), offset
