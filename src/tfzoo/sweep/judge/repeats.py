"""Whether the verdicts of a sweep hold when it is run again with other seeds: what the repeat says
by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from tfzoo.errors import BadRun
from tfzoo.sweep.judge.design import UNDECLARED, Design
from tfzoo.sweep.judge.effects import Axes
from tfzoo.sweep.judge.paired import ALPHA, holm
from tfzoo.sweep.judge.scores_by_seed import Mode, listed, parse_seed
from tfzoo.sweep.judge.verdicts import DECIDED, Judged, judge

Repetition = Literal["held", "not confirmed", "turned round", "too few to tell"]


@dataclass(frozen=True)
class Repeat:
    """A verdict of the first runs, and what the repeat alone says of it.

    Attributes:
        labels: those of the comparison.
        first, again: its judgements by the first runs and by the repeat.
        p: of the repeat's one-sided t test in the direction of the first verdict, or of its test of
            equivalence, after Holm's correction for all verdicts that were repeated; None without a
            test.
        outcome: ``held`` if that p is below 0.05, with and without the runs that diverged;
            ``turned round`` if the repeat's own verdict is the opposite; ``too few to tell`` if the
            repeat has no test, for which it needs three seeds, none of them failed; else ``not
            confirmed``.
    """

    labels: dict[str, str]
    first: Judged
    again: Judged
    p: float | None = None

    @property
    def outcome(self) -> Repetition:
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


@dataclass(frozen=True)
class Repeats:
    """What became of the verdicts by one metric on values of axes and, in a grid, on cells; and the
    seeds of both sides.
    """

    metric: str
    first_seeds: list[int]
    again_seeds: list[int]
    all: list[Repeat]

    @property
    def sentence(self) -> str:
        """How many verdicts held: ``of 4 verdicts 2 held, 2 not confirmed``."""
        count = Counter(one.outcome for one in self.all)
        parts = [
            f"{count[outcome]} {outcome}" for outcome in get_args(Repetition) if count[outcome]
        ]
        return (
            f"of {len(self.all)} verdict{'s' * (len(self.all) != 1)} {', '.join(parts) or 'none'}"
        )


def repeats(
    first: Sequence[Mapping[str, Any]],
    again: Sequence[Mapping[str, Any]],
    axes: Axes,
    baseline: Mapping[str, str],
    metric: str,
    mode: Mode,
    design: Design = UNDECLARED,
    untrained: float | None = None,
) -> Repeats:
    """Judge two runs of the same sweep with different seeds, each alone.

    Args:
        first, again: rows as of :func:`tfzoo.sweep.judge.verdicts.judge`, whose other arguments
            follow.

    Raises:
        BadRun: they share seeds, or have different cells.
    """
    check_repeat(first, again, axes)
    one, two = (
        judge(rows, axes, baseline, metric, mode, design, untrained) for rows in (first, again)
    )
    groups = [one.axes, two.axes], *([[one.cells, two.cells]] if one.is_grid else [])
    found = [
        Repeat(verdict.labels, verdict, judged)
        for verdicts, judgements in groups
        for verdict, judged in zip(verdicts, judgements, strict=True)
        if verdict.verdict in DECIDED
    ]
    corrected = iter(holm([one.p_alone for one in found if one.p_alone is not None]).tolist())
    return Repeats(
        metric,
        seeds_of(first),
        seeds_of(again),
        [one if one.p_alone is None else replace(one, p=next(corrected)) for one in found],
    )


def check_repeat(
    first: Sequence[Mapping[str, Any]], again: Sequence[Mapping[str, Any]], axes: Axes
) -> None:
    """Check that runs can be a repeat of others.

    Raises:
        BadRun: they share seeds, or have different cells.
    """
    if both := {*seeds_of(first)} & {*seeds_of(again)}:
        raise BadRun(
            f"{listed(sorted(both))} in both: a repeat has other seeds "
            "(tfzoo sweep FILE --seeds 6-10 --run FOLDER)"
        )
    one, two = ({tuple(str(row[axis]) for axis in axes) for row in rows} for rows in (first, again))
    if one != two:
        cell = ", ".join(min(one ^ two))
        raise BadRun(f"{cell} is in one of the two only: a repeat has the same cells")


def seeds_of(rows: Iterable[Mapping[str, Any]]) -> list[int]:
    """The seeds of completed runs, in order."""
    found = {parse_seed(row.get("seed")) for row in rows if row.get("status") == "completed"}
    return sorted(seed for seed in found if seed is not None)
