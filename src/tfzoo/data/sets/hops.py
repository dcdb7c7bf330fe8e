"""Follow arrows from name to name: a generated data set that needs several steps."""

from dataclasses import dataclass
from random import Random
from string import ascii_lowercase

from tfzoo.base.registry import register
from tfzoo.data.sets import Drawn, Row

MOST_HOPS = (len(ascii_lowercase) - 1) // 2
"""As many as 26 names allow."""


@register("dataset", "hops", paper="arXiv:2402.09268")
@dataclass(kw_only=True)
class Hops(Drawn):
    """Follow arrows from name to name, so many as the question has: ``a>>? b>d c>a d>c a>b -> d``.

    The question comes first: a name and 1 to ``hops`` arrows (uniformly distributed). Then come
    ``names`` pairs in random order. They lead from each name to another, through all of them and
    back, as in ``a>b>d>c>a``: every name is the first of one pair and the second of one, so that
    counting names tells nothing but that the answer is not the name in the question. The order of
    pairs does not matter.

    ``each`` is the size of each of the test splits ``hops1``, ``hops2``, ..., whose questions have
    that many arrows. ``names`` is over twice ``hops``, as going back would be shorter.

    >>> from tfzoo.base.registry import create
    >>> made = create("dataset", {"name": "hops", "names": 5, "hops": 2, "train": 50, "val": 5})
    >>> made.splits(seed=1)["val"][0]
    ('c>? e>a d>c a>b c>e b>d', 'e')
    """

    names: int = 10
    hops: int = 4
    each: int = 500

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check("hops", le=MOST_HOPS)
        self.check("names", ge=2 * self.hops + 1, le=len(ascii_lowercase))
        self.check("each")
        self.labels = list(ascii_lowercase[: self.names])
        self.by_split = {f"hops{arrows}": arrows for arrows in range(1, self.hops + 1)}
        self.sizes |= dict.fromkeys(self.by_split, self.each)

    def draw(self, split: str, random: Random) -> Row:
        arrows = self.by_split.get(split) or random.randint(1, self.hops)
        circle = random.sample(self.labels, self.names)
        pairs = [
            f"{one}>{other}" for one, other in zip(circle, circle[1:] + circle[:1], strict=True)
        ]
        random.shuffle(pairs)
        return " ".join([f"{circle[0]}{'>' * arrows}?", *pairs]), circle[arrows]
