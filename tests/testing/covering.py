"""Covering arrays: few combinations in which every pair (or triple) of parts still occurs.

With 3 to 14 values in each of 8 columns, the full product has millions of rows; a mistake in how
two parts work together shows in any row that holds both.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations as choose
from itertools import product

Columns = Mapping[str, Sequence[str]]
"""The values of each column."""
Row = Mapping[str, str]
"""A value for each column, or for some."""


def interactions(columns: Columns, strength: int) -> Iterator[Row]:
    """Every combination of values of ``strength`` columns."""
    for chosen in choose(columns, strength):
        for values in product(*(columns[name] for name in chosen)):
            yield dict(zip(chosen, values, strict=True))


def covering(
    columns: Columns,
    strength: int,
    may: Callable[[Row], bool] = lambda row: True,
    covered: Iterable[Row] = (),
) -> list[Row]:
    """Rows in which every interaction of ``strength`` columns occurs that some row can hold, but
    for those that ``covered`` has.

    ``may`` says which rows there can be. It is asked of rows with some columns missing, too, and
    where it says no then, it says no whatever stands in those.

    Greedy, as AETG (Cohen et al. 1997): the first interaction that is missing is completed column
    by column with the value that adds the most. The result is the same in every process.
    """
    bits = {one: 1 << i for i, one in enumerate((c, v) for c in columns for v in columns[c])}
    missing = {_key(bits, row.items()): row for row in interactions(columns, strength) if may(row)}

    def gain(row: Row, column: str, value: str) -> int:
        bit = bits[column, value]
        others = choose([bits[one] for one in row.items()], strength - 1)
        return sum(sum(chosen) + bit in missing for chosen in others)

    def fits(row: Row) -> bool:
        """Whether a row may be, and leaves a value for each missing column, taken alone."""
        return may(row) and all(
            any(may({**row, column: value}) for value in columns[column])
            for column in columns
            if column not in row
        )

    def completed(row: Row) -> Row | None:
        """A row that begins so and may be, or None where there is none."""
        column = next((one for one in order if one not in row), None)
        if column is None:
            return row
        values = columns[column]
        for value in sorted(values, key=lambda value: gain(row, column, value), reverse=True):
            longer = {**row, column: value}
            found = completed(longer) if fits(longer) else None
            if found is not None:
                return found
        return None

    def remove(row: Row) -> None:
        for chosen in choose(row.items(), strength):
            missing.pop(_key(bits, chosen), None)

    order = sorted(columns, key=lambda name: len(columns[name]), reverse=True)
    rows: list[Row] = []
    for row in covered:
        remove(row)
    while missing:
        first = next(iter(missing))
        start = missing.pop(first)
        row = completed(start) if fits(start) else None
        if row is not None:
            rows.append({name: row[name] for name in columns})
            remove(row)
    return rows


def _key(bits: Mapping[tuple[str, str], int], parts: Iterable[tuple[str, str]]) -> int:
    """A number for a set of values, the same in whatever order they come."""
    return sum(bits[one] for one in parts)
