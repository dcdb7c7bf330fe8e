"""All names that arrows lead to: a generated data set whose texts have several labels."""

from random import Random
from string import ascii_lowercase

from tfzoo.base.registry import register
from tfzoo.data.sets import Drawn, Row


@register("dataset", "reachable")
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

    def __init__(
        self,
        *,
        names: int = 7,
        arrows: int = 8,
        steps: int = 2,
        train: int = 20_000,
        val: int = 1000,
        test: int = 1000,
    ) -> None:
        self.check("names", names, ge=2, le=len(ascii_lowercase))
        self.check("arrows", arrows, ge=1, le=names * (names - 1))
        self.check("steps", steps, ge=1, le=names - 1)
        self.names, self.arrows, self.steps = ascii_lowercase[:names], arrows, steps
        self.labels = list(self.names)
        self.pairs = [(a, b) for a in self.names for b in self.names if a != b]
        super().__init__({"train": train, "val": val, "test": test})

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
