"""What a sweep declared before it was judged: a margin, and at which numbers of seeds."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from tfzoo.errors import BadRecipe
from tfzoo.sweep.judge.effects import Comparison, listed

Seeds = Sequence[int]


@dataclass(frozen=True)
class Margin:
    """A difference that does not matter if it is smaller: a number of points, or a share of the
    baseline's mean if ``is_share``.
    """

    value: float
    is_share: bool = False

    def at(self, score: float) -> float:
        """The difference that does not matter where the baseline has this score."""
        return self.value * abs(score) if self.is_share else self.value

    def describe(self, against: str) -> str:
        """``0.5``, ``1 % of layer's mean``."""
        return f"{self.value * 100:g} % of {against}'s mean" if self.is_share else f"{self.value:g}"


@dataclass(frozen=True)
class Design:
    """How a metric is judged.

    Attributes:
        margin: differences within it do not matter; None if nothing was declared.
        looks: the numbers of seeds, in rising order, at which the sweep declared that it would be
            judged: its verdicts at all of them together then hold at 5 %. Empty: once, with all
            seeds.
        earlier: the numbers of seeds at which it was judged before, if it has other seeds now.
    """

    margin: Margin | None = None
    looks: tuple[int, ...] = ()
    earlier: tuple[int, ...] = ()

    def margins(self, one: Comparison) -> list[float]:
        """The margin at each pair. A share is one of the pair's own baseline, so that the test
        allows for the mean's being an estimate.
        """
        return [self.margin.at(one.base[seed]) for seed in one.pairs] if self.margin else []

    def why_no_verdict(self, count: int, failed: Seeds, unfinished: Seeds) -> str:
        """Why a comparison over ``count`` seeds has no verdict whatever its numbers are, with the
        seeds whose runs failed or are not finished; ``""`` if it may have one.
        """
        if failed:
            return f"{listed(failed)} failed"
        if self.looks:
            return ""
        if unfinished:
            return f"{listed(unfinished)} {'is' if len(unfinished) == 1 else 'are'} not finished"
        return f"it {self.grown(count)}" if self.earlier else ""

    def grown(self, count: int) -> str:
        """``was judged with 3 seeds before it had 5``, where it was judged :attr:`earlier`."""
        return f"was judged with {' and '.join(map(str, self.earlier))} seeds before it had {count}"


def parse_margin(given: object) -> Margin | None:
    """The margin that a sweep file gives: a number of points, or a share such as ``1 %``."""
    if given is None:
        return None
    share = re.fullmatch(r"(\d+(?:\.\d+)?) ?%", given) if isinstance(given, str) else None
    value = float(share[1]) / 100 if share else given
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise BadRecipe(
            "margin is a number of points above 0, or a share of the baseline's mean such as 1 %, "
            f"not {given!r}"
        )
    return Margin(float(value), bool(share))


UNDECLARED = Design()
"""No margin, and as many seeds as were planned."""
