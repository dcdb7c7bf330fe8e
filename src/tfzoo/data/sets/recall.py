"""The letter some places back from a mark: a generated data set that needs relative positions."""

from dataclasses import dataclass
from random import Random

from tfzoo.base.registry import register
from tfzoo.data.sets import Drawn, Row

LETTERS = "abcdefghij"

LONGER = {"x2": 2, "x4": 4, "x8": 8}
"""Test splits of texts so many times as long as those of training."""

LONGEST = 100_000
"""The longest text of training."""


@register("dataset", "recall")
@dataclass(kw_only=True)
class Recall(Drawn):
    """The letter some places back from a mark: ``c a f <2 b d -> a``; ten classes.

    A text has ``min_length`` to ``max_length`` tokens (uniformly distributed). One is the mark
    ``<k``, all others are letters from a to j, each with probability 1/10. The answer is the letter
    k places before the mark, where k is uniform from ``min_distance`` to ``distance``, and the mark
    stands at any place that leaves room for k letters before it, each with the same probability. So
    mark and answer can be anywhere, and only the distance between them tells which letter it is.

    ``longer`` is the size of each of the test splits ``x2``, ``x4`` and ``x8``, whose texts have 2,
    4 and 8 times ``min_length`` to ``max_length`` tokens; distances are those of training.

    >>> from tfzoo.base.registry import create
    >>> made = create("dataset", {"name": "recall", "distance": 3, "max_length": 12})
    >>> made.splits(seed=1)["test"][0]
    ('f g d a b a b <3 i f f f', 'b')
    """

    labels = tuple(LETTERS)

    distance: int = 8
    min_distance: int = 1
    min_length: int = 12
    max_length: int = 24
    longer: int = 500

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check("longer")
        self.check("distance", le=LONGEST - 1)
        self.check("min_distance", le=self.distance)
        self.check("min_length", ge=self.distance + 1, le=LONGEST)
        self.check("max_length", ge=self.min_length, le=LONGEST)
        self.sizes |= dict.fromkeys(LONGER, self.longer)

    def draw(self, split: str, random: Random) -> Row:
        times = LONGER.get(split, 1)
        length = random.randint(times * self.min_length, times * self.max_length)
        back = random.randint(self.min_distance, self.distance)
        mark = random.randrange(back, length)
        tokens = random.choices(LETTERS, k=length)
        tokens[mark] = f"<{back}"
        return " ".join(tokens), tokens[mark - back]
