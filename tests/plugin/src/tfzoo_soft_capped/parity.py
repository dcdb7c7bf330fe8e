"""A generated data set."""

from random import Random

from tfzoo import register
from tfzoo.data.sets import Drawn


@register("dataset", "parity")
class Parity(Drawn):
    """Whether the sum of digits is even: ``3 1 4 -> even``."""

    labels = ("even", "odd")

    def __init__(
        self, *, length: int = 12, train: int = 20_000, val: int = 500, test: int = 500
    ) -> None:
        super().__init__({"train": train, "val": val, "test": test})
        self.length = length

    def draw(self, split: str, random: Random) -> tuple[str, str]:
        digits = random.choices(range(10), k=self.length)
        return " ".join(map(str, digits)), self.labels[sum(digits) % 2]
