"""A generated data set."""

from dataclasses import dataclass
from random import Random

from tfzoo import register
from tfzoo.data.sets import Drawn


@register("dataset", "parity")
@dataclass(kw_only=True)
class Parity(Drawn):
    """Whether the sum of digits is even: ``3 1 4 -> even``."""

    labels = ("even", "odd")
    length: int = 12

    def draw(self, split: str, random: Random) -> tuple[str, str]:
        digits = random.choices(range(10), k=self.length)
        return " ".join(map(str, digits)), self.labels[sum(digits) % 2]
