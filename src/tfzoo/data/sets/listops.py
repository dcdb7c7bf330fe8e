"""Nested lists of digits to evaluate: a generated data set that needs structure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from statistics import median

from tfzoo.base.registry import register
from tfzoo.data.sets import Drawn, Row

OPERATORS: Mapping[str, Callable[[list[int]], int]] = {
    "[MIN": min,
    "[MAX": max,
    "[MED": lambda values: int(median(values)),
    "[SM": lambda values: sum(values) % 10,
}
END = "]"
LIST = 0.25
"""The probability that an argument is a list."""

LONGEST = 1_000_000
"""The largest bound of the length."""


class TooLong(Exception):
    """An expression has become longer than ``max_length``."""


@register("dataset", "listops", paper="arXiv:2011.04006, section 2.2.1; grammar: arXiv:1804.06028")
@dataclass(kw_only=True)
class ListOps(Drawn):
    """Evaluate nested lists: ``[MAX 4 3 [MIN 2 3 ] 1 0 ] -> 4``; ten classes.

    The grammar is Long Range Arena's. A list has an operator (minimum, maximum, median rounded
    down, sum modulo ten) and 2 to ``arguments`` arguments, uniformly distributed; an argument is a
    list with probability 1/4, else a digit. The outermost list has depth 1; at ``depth`` there are
    only digits. Expressions of over ``min_length`` and under ``max_length`` tokens are kept; the
    operator and the closing bracket of a list are tokens.

    As published: ``{depth: 10, arguments: 10, min_length: 500, max_length: 2000, train: 96000, val:
    2000, test: 2000}``.
    """

    labels = tuple("0123456789")

    depth: int = 6
    arguments: int = 4
    min_length: int = 8
    max_length: int = 60

    def __post_init__(self) -> None:
        super().__post_init__()
        self.sizes = {"test": self.test, "val": self.val, "train": self.train}
        self.check("depth", ge=2, le=100)
        self.check("arguments", ge=2, le=1000)
        self.check("min_length", le=LONGEST)
        self.check("max_length", ge=2, le=LONGEST)
        self.wanted = f"expressions of over {self.min_length} and under {self.max_length} tokens"

    def draw(self, split: str, random: Random) -> Row | None:
        """An expression and its value; None for one of a wrong length. The grammar's single digits
        are left out: they are too short.
        """
        tokens: list[str] = []
        try:
            value = self._list(random, 1, tokens)
        except TooLong:
            return None
        return (" ".join(tokens), str(value)) if len(tokens) > self.min_length else None

    def _list(self, random: Random, depth: int, tokens: list[str]) -> int:
        operator = random.choice(list(OPERATORS))
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
        return OPERATORS[operator](values)
