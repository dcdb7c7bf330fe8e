"""Whether the verdicts of a sweep hold when it is run again with other seeds: what the repeat says
by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from tfzoo.errors import BadRun
from tfzoo.sweep.judge.design import UNDECLARED, Design
from tfzoo.sweep.judge.effects import Axes
from tfzoo.sweep.judge.paired import ALPHA, Mode, correct
from tfzoo.sweep.judge.scores_by_seed import parse_seed
from tfzoo.sweep.judge.verdicts import Judged, judge

Repetition = Literal[
    "held",
    "not confirmed",
    "turned round",
    "too few to tell",
    "appeared",
    "not yet known",
    "not judged",
]
DECIDED = {"better", "worse", "equivalent"}
OF_VERDICTS: tuple[Repetition, ...] = ("held", "not confirmed", "turned round", "too few to tell")
"""What can become of a verdict."""


@dataclass(frozen=True)
class Repeat:
    """A comparison judged by the first runs, by the repeat alone, and by both together.

    Attributes:
        labels: those of the comparison.
        first, again: its judgements by the first runs and by the repeat.
        pooled: the mean of all paired differences with its interval, which is no verdict: the
            sample grew after it was judged.
        p: of the repeat's one-sided t test in the direction of the first verdict, or of its test of
            equivalence, after Holm's correction for all verdicts that were repeated; None without
            a first verdict or a test.
        outcome: ``held`` if that p is below 0.05; ``turned round`` if the repeat's own verdict is
            the opposite; ``too few to tell`` if the repeat has no test, for which it needs three
            seeds, none of them failed; else ``not confirmed``. Without a first
            verdict, ``appeared`` if the repeat has one.
    """

    labels: dict[str, str]
    first: Judged
    again: Judged
    pooled: Judged
    p: float | None = None

    @property
    def outcome(self) -> Repetition:
        first, again = self.first.verdict, self.again.verdict
        if first not in DECIDED:
            if first == "not judged" or self.again.difference is None:
                return "not judged"
            return "appeared" if again in DECIDED else "not yet known"
        if self.p is None:
            return "too few to tell"
        if self.p < ALPHA:
            return "held"
        return "turned round" if {first, again} == {"better", "worse"} else "not confirmed"

    @property
    def p_alone(self) -> float | None:
        """:attr:`p` without correction."""
        again, first = self.again, self.first
        if first.verdict not in DECIDED or again.why_open or again.p is None:
            return None
        if first.verdict == "equivalent":
            return again.p_equivalent
        agree = ((again.difference or 0.0) < 0) == ((first.difference or 0.0) < 0)
        return again.p / 2 if agree else 1 - again.p / 2


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
        """How many verdicts held: ``of 4 verdicts 2 held, 2 not confirmed; 1 appeared``."""
        count = Counter(one.outcome for one in self.all)
        before = sum(count[outcome] for outcome in OF_VERDICTS)
        parts = [f"{count[outcome]} {outcome}" for outcome in OF_VERDICTS if count[outcome]]
        text = f"of {before} verdict{'s' * (before != 1)} {', '.join(parts)}" if before else ""
        new = f"{count['appeared']} appeared" if count["appeared"] else ""
        return "; ".join(filter(None, (text, new))) or "no verdict, and none appeared"

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
    design: Design = UNDECLARED,
    *,
    pool: bool = True,
) -> Repeats:
    """Judge two runs of the same sweep with different seeds, each alone and both together. The
    pooled differences are paired by seed as before, so that what distinguishes two machines cancels
    within each pair.

    Args:
        first, again: rows as of :func:`tfzoo.sweep.judge.verdicts.judge`, whose other arguments
            follow.
        pool: if not, ``again`` is of another setting, such as twice the steps, whose effects need
            not be of equal size: it stands in place of both together, and may have the same seeds.

    Raises:
        BadRun: they share seeds, or have different cells.
    """
    check_repeat(first, again, axes, pool)
    both = [*first, *(row for row in again if row not in first)]  # a refused cell counts once
    grown = replace(design, most=None, earlier=(len(seeds_of(first)),))
    judged = [
        judge(rows, axes, baseline, metric, mode, how)
        for rows, how in (
            (first, design),
            (again, design),
            (both if pool else again, grown if pool else design),
        )
    ]
    main, cells = match([found.axes for found in judged]), match([found.cells for found in judged])
    grid = judged[0].is_grid
    if grid:
        family = with_p([*main, *cells])
        main, cells = family[: len(main)], family[len(main) :]
    else:  # the effects of axes are the cells
        main, cells = with_p(main), with_p(cells)
    return Repeats(metric, seeds_of(first), seeds_of(again), main, cells, grid)


def with_p(family: Sequence[Repeat]) -> list[Repeat]:
    """The repeats with their corrected p."""
    corrected = iter(correct([one.p_alone for one in family if one.p_alone is not None]))
    return [replace(one, p=None if one.p_alone is None else next(corrected)) for one in family]


def match(groups: Sequence[Sequence[Judged]]) -> list[Repeat]:
    """The judgements of equal labels, without those of the baseline."""
    first, again, pooled = groups
    return [
        Repeat(one.labels, one, of(one.labels, again), of(one.labels, pooled))
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
