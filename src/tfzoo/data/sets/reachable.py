"""All names that arrows lead to: a generated data set whose texts have several labels."""

from dataclasses import dataclass
from itertools import permutations
from random import Random
from string import ascii_lowercase

from tfzoo.base.registry import register
from tfzoo.data.sets import Drawn, Row


@register("dataset", "reachable")
@dataclass(kw_only=True)
class Reachable(Drawn):
    """All names that at most ``steps`` arrows lead to: ``a? c>d a>c b>a a>e -> c,d,e``.

    The question comes first, a name that an arrow leaves. Then come ``arrows`` different pairs of
    two of the ``names`` in random order. The labels are the names that can be reached from the one
    in the question, other than itself, in the order of the alphabet, with commas between them.

    >>> from tfzoo.base.registry import create
    >>> made = create("dataset", {"name": "reachable", "names": 5, "arrows": 4, "train": 9})
    >>> made.splits(seed=1)["val"][0]
    ('a? e>c a>b b>e b>d', 'b,d,e')
    """

    names: int = 7
    arrows: int = 8
    steps: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check("names", ge=2, le=len(ascii_lowercase))
        self.check("arrows", le=self.names * (self.names - 1))
        self.check("steps", le=self.names - 1)
        self.labels = list(ascii_lowercase[: self.names])
        self.pairs = list(permutations(self.labels, 2))

    def draw(self, split: str, random: Random) -> Row:
        arrows = random.sample(self.pairs, self.arrows)
        start = random.choice(sorted({name for name, _ in arrows}))
        text = " ".join([f"{start}?", *(f"{a}>{b}" for a, b in arrows)])
        return text, ",".join(sorted(reached(start, arrows, self.steps)))


def reached(start: str, arrows: list[tuple[str, str]], steps: int) -> set[str]:
    """The names that at most so many arrows lead to from ``start``, without itself."""
    found = {start}
    for _ in range(steps):
        found |= {end for begin, end in arrows if begin in found}
    return found - {start}
