"""Pairs of texts: two columns that are read as one text, ``first<TAB>second``, and become one
sequence of tokens, ``first SEP second``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from tfzoo.base.special_ids import SpecialIds
from tfzoo.data.encoded import Integers, Sentences
from tfzoo.errors import BadData

TAB = "\t"
"""Stands between the two texts of a pair. Within one of them it is read as a space."""


class Pair(str):
    """The names of the two columns that hold the texts of a pair, with a tab between them."""


def names_of(column: str) -> list[str]:
    """The columns of a file that ``column`` is read from.

    >>> names_of("text"), names_of(Pair("premise\\thypothesis"))
    (['text'], ['premise', 'hypothesis'])
    """
    return column.split(TAB) if isinstance(column, Pair) else [str(column)]


def joined(texts: Iterable[str]) -> str:
    """The texts of a pair as one.

    >>> joined(["it rains", "it is\\twet"])
    'it rains\\tit is wet'
    """
    return TAB.join(text.replace(TAB, " ") for text in texts)


def parts(text: str) -> tuple[str, str]:
    """The two texts of a pair; ``""`` has two empty ones."""
    first, _, second = text.partition(TAB)
    return first, second


def title(text: str) -> str:
    """A text, or both of a pair, as the title of a page."""
    return text.strip().replace(TAB, " / ")


def check_several(texts: object) -> None:
    """Check that a list of texts is not one text, whose characters would be taken for lines.

    Raises:
        BadData: it is a string, or bytes.
    """
    if isinstance(texts, str | bytes):
        raise BadData(f"pass a list of texts, not one: [{texts[:40]!r}]")


def pair_lines(lines: Iterable[str | Sequence[str]]) -> list[str]:
    """Pairs, of which each is two texts or one line with a tab between them, as lines. An empty
    line is a pair of empty texts.

    Raises:
        BadData: ``lines`` is one string, or a line has no tab or several.
    """
    check_several(lines)
    found = []
    for number, line in enumerate(lines, 1):
        if isinstance(line, tuple | list) and all(isinstance(text, str) for text in line):
            line = joined(line)
        if isinstance(line, str) and line and line.count(TAB) != 1:
            raise BadData(
                f"text {number:,}, {line[:40]!r}: the model reads pairs of texts, each with one "
                "tab between its two texts"
            )
        found.append(line)
    return found  # type: ignore[return-value]  # what is no text is told by checked_lines


def truncate(ids: Sequence[int], most: int, special: SpecialIds) -> list[int]:
    """The first tokens of both texts of a pair, at most ``most`` with the separator: of the longer
    text one is removed at a time, of texts of equal length the second one's ("longest first").

    >>> from tfzoo.base.special_ids import OWN
    >>> truncate([5, 6, 7, 8, 3, 9, 10], 5, OWN)
    [5, 6, 3, 9, 10]
    """
    found, between = list(ids), special.sep
    first = found.index(between[0])
    rest = found[first + len(between) :]
    left = max(most - len(between), 0)
    first = min(first, max(left - left // 2, left - len(rest)))
    return [*found[:first], *between, *rest[: max(left - first, 0)]]


def shortened(sequences: Sentences, rows: Integers, most: int, special: SpecialIds) -> Sentences:
    """The pairs ``rows``, each with at most ``most`` tokens."""
    starts, ends = sequences.offsets[rows], sequences.offsets[np.asarray(rows) + 1]
    each = (sequences.ids[start:end].tolist() for start, end in zip(starts, ends, strict=True))
    return Sentences.of([truncate(ids, most, special) if len(ids) > most else ids for ids in each])
