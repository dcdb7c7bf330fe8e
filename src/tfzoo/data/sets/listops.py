"""Nested lists of digits to evaluate: a data set that needs structure, made up on the spot."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from random import Random

from tfzoo.data.progress import watched
from tfzoo.errors import BadOption
from tfzoo.registry import register

OPERATORS = ("[MIN", "[MAX", "[MED", "[SM")
END = "]"
LIST = 0.25
"""How often a list stands where a digit could stand."""

LEAST = {"depth": 2, "arguments": 2, "min_length": 1, "train": 1, "val": 1, "test": 1}

TRIES = 10_000
"""Draws in vain after which there is nothing more to find."""

SHORTEST = 4
"""Tokens of a list of two digits."""

Row = tuple[str, str]


class TooLong(Exception):
    """An expression that has become longer than wanted."""


@register("dataset", "listops", paper="arXiv:2011.04006, section 2.2.1; grammar: arXiv:1804.06028")
class ListOps:
    """Evaluate nested lists: ``[MAX 4 3 [MIN 2 3 ] 1 0 ] -> 4``; ten classes.

    The grammar is Long Range Arena's: a list has an operator (minimum, maximum, median rounded
    down, sum modulo ten) and from 2 to ``arguments`` arguments, equally often; an argument is a
    list in one of four cases, else a digit. The outermost list has depth 1, and at ``depth`` there
    are digits alone. Kept is what has over ``min_length`` and under ``max_length`` tokens; a list
    counts its operator and its closing bracket. All follows from the seed.

    As published: ``{depth: 10, arguments: 10, min_length: 500, max_length: 2000, train: 96000, val:
    2000, test: 2000}``.

    ``train``, ``val``, ``test`` are expressions in each split; none is in two, and ``val`` and
    ``test`` hold none twice.

    Raises:
        BadOption: a size under its least, or lengths between which nothing lies; in ``splits``,
            lengths between which too little does.
    """

    def __init__(
        self,
        *,
        depth: int = 6,
        arguments: int = 4,
        min_length: int = 8,
        max_length: int = 60,
        train: int = 20_000,
        val: int = 1000,
        test: int = 1000,
    ) -> None:
        self.depth, self.arguments, self.min_length, self.max_length = (
            depth,
            arguments,
            min_length,
            max_length,
        )
        self.sizes = {"test": test, "val": val, "train": train}
        given = {"depth": depth, "arguments": arguments, "min_length": min_length, **self.sizes}
        for name, value in given.items():
            if value < LEAST[name]:
                raise BadOption(
                    f"dataset 'listops', option {name!r}: {value} is under {LEAST[name]}"
                )
        if max(min_length + 1, SHORTEST) >= min(max_length, largest(depth, arguments) + 1):
            raise BadOption(
                f"dataset 'listops': no expression of this depth has over {min_length} and under {max_length} tokens"
            )

    @property
    def labels(self) -> list[str]:
        """The ten digits."""
        return [str(digit) for digit in range(10)]

    def splits(self, seed: int) -> dict[str, list[Row]]:
        """Expressions and their values by split: train, val, test."""
        drawn: dict[str, list[Row]] = {}
        scored: set[str] = set()
        for split, size in self.sizes.items():
            rows: list[Row] = []
            vain = 0
            for row in watched(
                self._expressions(Random(f"listops {split} {seed}")), f"drawing {split}"
            ):
                vain += 1
                if vain > TRIES:
                    raise BadOption(
                        f"dataset 'listops': {split} cannot get {size:,} expressions of over {self.min_length} and under {self.max_length} "
                        f"tokens; the last {TRIES:,} drawn were of other lengths, or had been drawn before"
                    )
                if row is None or row[0] in scored:
                    continue
                vain = 0
                rows.append(row)
                if split != "train":
                    scored.add(row[0])
                if len(rows) == size:
                    break
            drawn[split] = rows
        return {split: drawn[split] for split in ("train", "val", "test")}

    def baselines(self, train: Iterable[Row], test: Iterable[Row]) -> Mapping[str, float]:
        """What is right of ``test`` for one who knows the outermost operator alone, and from
        ``train`` its most frequent value.
        """
        values: dict[str, Counter[str]] = defaultdict(Counter)
        for text, value in train:
            values[text.partition(" ")[0]][value] += 1
        best = {operator: counts.most_common(1)[0][0] for operator, counts in values.items()}
        right = [best.get(text.partition(" ")[0]) == value for text, value in test]
        return {"root operator": sum(right) / len(right)}

    def _expressions(self, random: Random) -> Iterator[Row | None]:
        """Expressions without end, None for one of another length. The grammar's digits alone are
        left out: no length allows them.
        """
        while True:
            tokens: list[str] = []
            try:
                value = self._list(random, 1, tokens)
            except TooLong:
                yield None
            else:
                yield (" ".join(tokens), str(value)) if len(tokens) > self.min_length else None

    def _list(self, random: Random, depth: int, tokens: list[str]) -> int:
        operator = random.choice(OPERATORS)
        tokens.append(operator)
        values = []
        for _ in range(random.randint(2, self.arguments)):
            if depth + 1 < self.depth and random.random() <= LIST:
                values.append(self._list(random, depth + 1, tokens))
            else:
                values.append(int(random.random() * 10))
                tokens.append(str(values[-1]))
            if len(tokens) + 1 >= self.max_length:
                raise TooLong
        tokens.append(END)
        return evaluate(operator, values)


def evaluate(operator: str, values: list[int]) -> int:
    """The value of one list."""
    ordered, middle = sorted(values), len(values) // 2
    if operator == OPERATORS[0]:
        return ordered[0]
    if operator == OPERATORS[1]:
        return ordered[-1]
    if operator == OPERATORS[2]:
        return ordered[middle] if len(values) % 2 else (ordered[middle - 1] + ordered[middle]) // 2
    return sum(values) % 10


def largest(depth: int, arguments: int) -> int:
    """Tokens of the largest expression."""
    return 1 if depth == 1 else 2 + arguments * largest(depth - 1, arguments)
