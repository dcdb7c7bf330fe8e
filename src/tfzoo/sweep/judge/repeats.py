"""Whether the verdicts of a sweep hold when it is run again with other seeds: what the repeat says
by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from tfzoo.sweep.judge.paired import ALPHA, holm
from tfzoo.sweep.judge.verdicts import DECIDED, Judged, Verdicts

Repetition = Literal["held", "not confirmed", "turned round", "too few to tell"]


@dataclass(frozen=True)
class Repeat:
    """A verdict of the first runs, and what the repeat alone says of it.

    Attributes:
        first, again: the judgements by the first runs and by the repeat.
        p: of the repeat's one-sided t test in the direction of the first verdict, or of its test of
            equivalence, after Holm's correction for all verdicts that were repeated; None without a
            test.
    """

    first: Judged
    again: Judged
    p: float | None = None

    @property
    def outcome(self) -> Repetition:
        """``held`` if p is below 0.05, with and without the runs that diverged; ``turned round`` if
        the repeat's own verdict is the opposite; ``too few to tell`` if the repeat has no test, for
        which it needs three seeds, none of them failed; else ``not confirmed``.
        """
        if self.p is None:
            return "too few to tell"
        if self.p < ALPHA and not self.again.depends:
            return "held"
        both = {self.first.verdict, self.again.verdict}
        return "turned round" if both == {"better", "worse"} else "not confirmed"

    @property
    def p_alone(self) -> float | None:
        """:attr:`p` without correction."""
        again, first = self.again, self.first
        if again.why_open or again.p is None:
            return None
        if first.verdict == "equivalent":
            return again.p_equivalent
        agree = ((again.difference or 0.0) < 0) == ((first.difference or 0.0) < 0)
        return again.p / 2 if agree else 1 - again.p / 2


def repeats(first: Verdicts, again: Verdicts) -> list[Repeat]:
    """What became of the verdicts on values of axes and, in a grid, on cells, by a repeat of the
    same cells with other seeds.
    """
    judged = [*first.axes, *(first.cells if first.is_grid else [])]
    others = {str(one.labels): one for one in (*again.cells, *again.axes)}
    found = [Repeat(one, others[str(one.labels)]) for one in judged if one.verdict in DECIDED]
    corrected = iter(holm([one.p_alone for one in found if one.p_alone is not None]).tolist())
    return [one if one.p_alone is None else replace(one, p=next(corrected)) for one in found]


def summary(found: Sequence[Repeat]) -> str:
    """How many verdicts held: ``of 4 verdicts 2 held, 2 not confirmed``."""
    count = Counter(one.outcome for one in found)
    parts = [f"{count[outcome]} {outcome}" for outcome in get_args(Repetition) if count[outcome]]
    return f"of {len(found)} verdict{'s' * (len(found) != 1)} {', '.join(parts) or 'none'}"
