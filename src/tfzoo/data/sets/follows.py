"""Whether a statement follows from others: a generated data set of pairs of texts."""

from dataclasses import dataclass
from random import Random
from string import ascii_lowercase

from tfzoo.base.registry import register
from tfzoo.data.sets import Drawn, Row
from tfzoo.data.table import joined

CONTRADICTION, ENTAILMENT, NEUTRAL = LABELS = ("contradiction", "entailment", "neutral")


@register("dataset", "follows", paper="arXiv:1508.05326")
@dataclass(kw_only=True)
class Follows(Drawn):
    """Whether a hypothesis follows from a premise: ``d>b a>d c>b`` and ``a>b -> entailment``.

    The premise has ``facts`` comparisons of two of the ``names``, in random order, which agree with
    some ranking. The hypothesis is one comparison: the label is ``entailment`` where a chain of
    comparisons leads from its first name to its second, ``contradiction`` where one leads back, and
    ``neutral`` otherwise, each in about a third of the examples. At least half of the chains have
    several comparisons, where there are such chains.

    >>> from tfzoo.base.registry import create
    >>> made = create("dataset", {"name": "follows", "names": 5, "facts": 4, "train": 9})
    >>> made.splits(seed=1)["val"][0]
    ('a>e c>b d>e d>a\\tc>b', 'entailment')
    """

    labels = LABELS
    text_columns = ("premise", "hypothesis")

    names: int = 7
    facts: int = 7

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check("names", ge=3, le=len(ascii_lowercase))
        self.check("facts", le=self.names * (self.names - 1) // 2 - 1)

    def draw(self, split: str, random: Random) -> Row:
        label = random.choice(LABELS)
        while True:
            ranking = random.sample(ascii_lowercase[: self.names], self.names)
            ordered = [(a, b) for at, a in enumerate(ranking) for b in ranking[at + 1 :]]
            facts = random.sample(ordered, self.facts)
            above = chains(facts)
            pairs = set(ordered) - above if label == NEUTRAL else above
            if pairs:
                break
        if label != NEUTRAL and random.random() < 0.5:
            pairs = above - set(facts) or above
        a, b = random.choice(sorted(pairs))
        if label == CONTRADICTION or (label == NEUTRAL and random.random() < 0.5):
            a, b = b, a
        return joined([" ".join(f"{x}>{y}" for x, y in facts), f"{a}>{b}"]), label


def chains(facts: list[tuple[str, str]]) -> set[tuple[str, str]]:
    """All pairs of names that some facts, one after the other, lead from and to."""
    found = set(facts)
    while more := {(a, d) for a, b in found for c, d in facts if b == c} - found:
        found |= more
    return found
