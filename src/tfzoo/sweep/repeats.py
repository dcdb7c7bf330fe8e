"""Whether the verdicts of a sweep hold when it is run again with other seeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tfzoo.errors import BadRun
from tfzoo.sweep import effects
from tfzoo.sweep.effects import Axes
from tfzoo.sweep.judge import Judged, Mode, judge
from tfzoo.sweep.scores import gather, parse_seed

Outcome = Literal[
    "held",
    "still a hint",
    "weakened",
    "turned round",
    "appeared",
    "not distinguishable",
    "not judged",
]
DIRECTIONS = {"better", "worse"}
OF_VERDICTS: tuple[Outcome, ...] = ("held", "still a hint", "weakened", "turned round")
"""What can become of a verdict."""


@dataclass(frozen=True)
class Repeat:
    """A comparison judged three times: by the first runs, by the repeat, and by both together.

    Attributes:
        labels: those of the comparison.
        first, again, pooled: its three judgements; the last is of all paired differences.
        outcome: ``held`` if the pooled verdict is the first one, is no hint, and the repeat's
            difference has its sign; ``still a hint`` if both are hints; ``weakened`` if a verdict
            does not hold so, or is a hint now; ``turned round`` if one of the three is better and
            another worse; ``appeared`` if there is a verdict by the pool alone.
    """

    labels: dict[str, str]
    first: Judged
    again: Judged
    pooled: Judged

    @property
    def outcome(self) -> Outcome:
        first, pooled = self.first.verdict, self.pooled.verdict
        if pooled == "not judged" or self.again.difference is None or self.first.difference is None:
            return "not judged"
        if {first, self.again.verdict, pooled} >= DIRECTIONS:
            return "turned round"
        same_sign = (self.first.difference < 0) == (self.again.difference < 0)
        if first in DIRECTIONS and first == pooled and same_sign:
            if self.pooled.is_hint:
                return "still a hint" if self.first.is_hint else "weakened"
            return "held"
        if first in DIRECTIONS:
            return "weakened"
        return "appeared" if pooled in DIRECTIONS else "not distinguishable"


@dataclass(frozen=True)
class Repeats:
    """The repeats of all comparisons by one metric, without the baseline's, and the seeds of both
    sides. If it is no grid, the cells are the effects of the axes.
    """

    metric: str
    first_seeds: list[int]
    again_seeds: list[int]
    axes: list[Repeat]
    cells: list[Repeat]
    is_grid: bool

    @property
    def sentence(self) -> str:
        """How many verdicts held: ``of 4 verdicts 2 held, 2 weakened; 1 appeared``."""
        count = Counter(one.outcome for one in self.all)
        before = sum(count[outcome] for outcome in OF_VERDICTS)
        parts = [f"{count[outcome]} {outcome}" for outcome in OF_VERDICTS if count[outcome]]
        text = f"of {before} verdict{'s' * (before != 1)} {', '.join(parts)}" if before else ""
        new = f"{count['appeared']} appeared" if count["appeared"] else ""
        return "; ".join(filter(None, (text, new))) or "nothing was or is distinguishable"

    @property
    def all(self) -> list[Repeat]:
        """Each comparison once: main effects and cells, or the cells alone."""
        return [*self.axes, *self.cells] if self.is_grid else self.cells


def repeats(
    first: Sequence[Mapping[str, Any]],
    again: Sequence[Mapping[str, Any]],
    axes: Axes,
    baseline: Mapping[str, str],
    metric: str,
    mode: Mode,
    *,
    pool: bool = True,
) -> Repeats:
    """Judge two runs of the same sweep with different seeds, each alone and both together. The
    pooled differences are paired by seed as before, so that what distinguishes two machines cancels
    within each pair.

    Args:
        first, again: rows as of :func:`tfzoo.sweep.judge.judge`, whose other arguments follow.
        pool: if not, ``again`` is of another setting, such as twice the steps, whose effects need
            not be of equal size: it stands in place of both together, and may have the same seeds.

    Raises:
        BadRun: they share seeds, or have different cells.
    """
    check_repeat(first, again, axes, pool)
    both = [*first, *(row for row in again if row not in first)]  # a refused cell counts once
    judged = [
        judge(rows, axes, baseline, metric, mode)
        for rows in (first, again, both if pool else again)
    ]
    return Repeats(
        metric,
        seeds_of(first),
        seeds_of(again),
        match([found.axes for found in judged]),
        match([found.cells for found in judged]),
        effects.is_grid(gather(first, axes, metric), effects.baseline(axes, baseline)),
    )


def match(groups: Sequence[Sequence[Judged]]) -> list[Repeat]:
    """The judgements of equal labels, without those of the baseline."""
    first, again, pooled = groups
    return [
        Repeat(one.labels, one, *(of(one.labels, group) for group in (again, pooled)))
        for one in first
        if one.verdict != "baseline"
    ]


def of(labels: Mapping[str, str], group: Iterable[Judged]) -> Judged:
    """The judgement of these labels."""
    return next(one for one in group if one.labels == labels)


def check_repeat(
    first: Sequence[Mapping[str, Any]],
    again: Sequence[Mapping[str, Any]],
    axes: Iterable[str],
    pool: bool,
) -> None:
    """Check that runs can be a repeat of others.

    Raises:
        BadRun: they share seeds, or have different cells.
    """
    both = {*seeds_of(first)} & {*seeds_of(again)}
    if pool and both:
        raise BadRun(
            f"seed {', '.join(map(str, sorted(both)))} is in both: a repeat has other seeds "
            "(tfzoo sweep FILE --seeds 6-10 --run FOLDER)"
        )
    names = list(axes)
    one, two = (
        {tuple(str(row[axis]) for axis in names) for row in rows} for rows in (first, again)
    )
    if one != two:
        cell = ", ".join(min(one ^ two))
        raise BadRun(f"{cell} is in one of the two only: a repeat has the same cells")


def seeds_of(rows: Iterable[Mapping[str, Any]]) -> list[int]:
    """The seeds of completed runs, in order."""
    found = {parse_seed(row.get("seed")) for row in rows if row.get("status") == "completed"}
    return sorted(seed for seed in found if seed is not None)
