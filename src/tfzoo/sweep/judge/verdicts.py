"""The verdicts of a sweep by one metric: means, differences to the baseline paired by seed, p; and
whether they hold when the sweep is run again with other seeds.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import fmean
from typing import Any, Literal, get_args

import numpy as np

from tfzoo.errors import UnknownName
from tfzoo.sweep.judge import effects, sentences
from tfzoo.sweep.judge.design import UNDECLARED, Design
from tfzoo.sweep.judge.diverged import Rate, rates
from tfzoo.sweep.judge.effects import Axes, Comparison, Mode, Scores, Setting, scores_by_seed
from tfzoo.sweep.judge.paired import (
    ALPHA,
    Interval,
    Outcome,
    answers,
    equivalence,
    has_variance,
    holm,
    interval,
    permutation,
    standing,
)

Verdict = Literal["baseline", "better", "worse", "equivalent", "not yet known", "not judged"]
DECIDED = ("better", "worse", "equivalent")
"""Verdicts that say something."""
Repetition = Literal["held", "not confirmed", "turned round", "too few to tell"]


@dataclass(frozen=True)
class Judged:
    """A cell compared with the baseline, the main effect of one value of an axis, or an interaction
    of two. A number that does not exist is None.

    Attributes:
        labels: the cell's label by axis; for a main effect, of that axis only.
        seeds, pairs: the number of seeds in the mean, and in the difference.
        mean, low, high: the mean over seeds and its confidence interval.
        difference, difference_low, difference_high: the mean paired difference to the baseline and
            its confidence interval. All intervals of a metric's differences hold together in 95 %
            of sweeps, as do those of its means.
        p, p_corrected: of the paired t test, sequential where looks are declared, before Holm's
            correction for all comparisons of the metric, and after it.
        p_equivalent, p_equivalent_corrected: of the two one-sided tests that the difference lies
            within the margin, and after Holm's correction; None without a margin.
        verdict: ``better`` or ``worse`` if ``p_corrected`` is below 0.05, else ``equivalent`` if
            ``p_equivalent_corrected`` is, with and without the runs that diverged.
        diverged: ``2 runs that diverged`` of those that it compares; ``""`` if none did.
        depends: whether there would be another verdict without them.
        why_open: why the sample has no verdict, whatever its numbers are; else ``""``.
        sentence: verdict and numbers as one sentence.
        notes: what a t test of these scores does not allow for, one sentence each.
    """

    labels: dict[str, str]
    seeds: int
    pairs: int
    mean: float | None
    low: float | None
    high: float | None
    difference: float | None
    difference_low: float | None
    difference_high: float | None
    p: float | None
    p_corrected: float | None
    p_equivalent: float | None
    p_equivalent_corrected: float | None
    verdict: Verdict
    diverged: str
    depends: bool
    why_open: str
    sentence: str
    notes: list[str]

    @property
    def is_hint(self) -> bool:
        """Whether there is a verdict whose corrected p is not clearly below 5 %."""
        p = self.p_equivalent_corrected if self.verdict == "equivalent" else self.p_corrected
        return self.verdict in DECIDED and p is not None and bool(sentences.hint(p))


@dataclass(frozen=True)
class Verdicts:
    """The verdicts by one metric on all cells and all values of axes, corrected together for
    ``comparisons`` tests. If it is no grid, the cells are the effects of the axes.

    ``smallest`` says which difference they could detect, and how many seeds would do better.
    ``diverged`` has an entry for each value of an axis of which a run diverged, or of whose
    baseline one did.
    """

    metric: str
    mode: Mode
    is_grid: bool
    cells: list[Judged]
    axes: list[Judged]
    notes: list[str]
    comparisons: int
    smallest: str
    diverged: list[Rate]
    design: Design


@dataclass(frozen=True)
class Dependence:
    """One sentence on whether the effect of an axis depends on another, and what it is based on:
    for values ``a`` and ``b`` of the two, the effect of ``a`` at ``b`` (``mean``), less its effect
    at the baseline's value of the other axis (``difference``).
    """

    axes: tuple[str, str]
    sentence: str
    found: list[Judged]


def judge(
    rows: Iterable[Mapping[str, Any]],
    axes: Axes,
    baseline: Mapping[str, str],
    metric: str,
    mode: Mode,
    design: Design = UNDECLARED,
    untrained: float | None = None,
) -> Verdicts:
    """Compare every cell and every value of every axis with the baseline, seed by seed.

    Args:
        rows: one per run, as in ``runs.csv``: a label for each axis, ``seed``, ``status``, and
            metrics.
        axes: the labels of each axis.
        baseline: the baseline's label on each axis; the first label if none is given.
        metric: the column to compare.
        mode: whether lower (``min``) or higher (``max``) is better.
        design: the margin within which differences do not matter, and how the number of seeds was
            chosen.
        untrained: the score of a model that knows nothing, which stands for one that is not finite;
            None: the worst score of all runs does.

    Returns:
        Cells in the order of the rows, values of axes in the order of ``axes``. If no cell differs
        from the baseline on more than one axis, the verdict of a value is that of its cell, and is
        counted once. What has no test before its runs are finished is counted, as if its p were 1:
        no verdict is taken back by them.

    Raises:
        UnknownName: another mode, or a baseline on what is no axis.
    """
    if mode not in get_args(Mode):
        raise UnknownName("mode", mode, get_args(Mode))
    base = effects.baseline(axes, baseline)
    scores = scores_by_seed(rows, axes, metric, mode, untrained)
    grid = effects.is_grid(scores, base)

    def compare(some: Scores) -> list[Comparison]:
        main = effects.main_effects(some, axes, base) if grid else ()
        return [*effects.cells(some, axes, base), *main]

    judged, family, count = judge_family(compare, scores, mode, design)
    cells = judged[: len(scores.values)]
    return Verdicts(
        metric,
        mode,
        grid,
        cells,
        judged[len(cells) :] if grid else list(one_axis_cells(cells, axes, base)),
        remarks(scores, base, metric, family),
        count,
        sentences.smallest_effect([one for one in family if one.is_testable], count, design),
        rates(scores, axes, base, design),
        design,
    )


def interactions(
    rows: Iterable[Mapping[str, Any]],
    axes: Axes,
    baseline: Mapping[str, str],
    metric: str,
    design: Design = UNDECLARED,
    untrained: float | None = None,
) -> list[Dependence]:
    """Test for each pair of axes whether the effect of the first depends on the second, with
    Holm's correction for all of them; arguments as of :func:`judge`. Empty unless cells differ from
    the baseline on two axes at once.
    """
    base = effects.baseline(axes, baseline)
    scores = scores_by_seed(rows, axes, metric, "min", untrained)
    if not effects.is_grid(scores, base):
        return []
    judged, _, count = judge_family(
        lambda some: effects.interactions(some, axes, base),
        scores,
        "min",
        replace(design, margin=None),  # which is one of scores, not of effects
    )
    start = dict(zip(axes, base, strict=True))
    return [
        Dependence(both, dependence(axes, start, metric, own, count, design), own)
        for both in combinations(axes, 2)
        if (own := [one for one in judged if tuple(one.labels) == both])
    ]


def dependence(
    axes: Axes,
    start: Mapping[str, str],
    metric: str,
    found: Sequence[Judged],
    comparisons: int,
    design: Design,
) -> str:
    """Whether the effect of the first axis depends on the second, by the clearest difference."""
    names = [effects.axis_name(axes, axis) for axis in found[0].labels]
    question = f"the effect of {names[0]} depends on {names[1]}"
    tested = [one for one in found if one.p_corrected is not None]
    if not tested:
        return f"whether {question} is not judged: no test"
    one = min(tested, key=lambda one: (one.verdict == "not yet known", one.p_corrected, one.p))
    (first, a), (second, b) = one.labels.items()
    here, difference = one.mean or 0.0, one.difference or 0.0
    low, high = one.difference_low or 0.0, one.difference_high or 0.0
    said = (
        f"{a} instead of {start[first]} changes {metric} by {sentences.signed(here)} at {b} and "
        f"by {sentences.signed(here - difference)} at {start[second]}, a difference of "
        f"{sentences.format_estimate(difference, low, high)} over {one.pairs} seeds, "
        f"{sentences.format_corrected(one.p_corrected or 0.0, comparisons, design)}"
    )
    if one.verdict == "not yet known":
        why = one.why_open
        if one.depends:
            why = f"it depends on the {one.diverged}"
        return f"not yet known whether {question}{why and f', because {why}'}: {said}"
    clear = sum(other.verdict != "not yet known" for other in tested)
    others = f"; {clear} of {len(tested)} such differences are significant" * (len(tested) > 1)
    return f"{sentences.hint(one.p_corrected or 0.0)}{question}: {said}{others}"


def judge_family(
    compare: Callable[[Scores], Iterable[Comparison]], scores: Scores, mode: Mode, design: Design
) -> tuple[list[Judged], list[Comparison], int]:
    """Judge comparisons that are corrected together, with the scores of all runs and without those
    of the runs that diverged: the judgements, what they are of, and for how many tests they are
    corrected.
    """
    both = [
        [one.at_look(design.looks) for one in compare(some)]
        for some in (scores, scores.without_diverged())
    ]
    counted = [
        one.is_testable or one.is_awaited or other.is_testable
        for one, other in zip(*both, strict=True)
    ]
    level = ALPHA / max(1, sum(len(one.own) > 1 for one in both[0]))
    tests = [outcomes(family, counted, design) for family in both]
    found = [
        conclude(one, outcome, other, sum(counted), mode, level, design)
        for one, outcome, other in zip(both[0], *tests, strict=True)
    ]
    return found, both[0], sum(counted)


def outcomes(
    family: Sequence[Comparison], counted: Sequence[bool], design: Design
) -> list[Outcome | None]:
    """The tests of comparisons, None for what has none, with Holm's correction for those that are
    counted, in which what has no test, or none yet, counts as if its p were 1.
    """
    count, tests = sum(counted), dict[int, Interval]()
    p = np.ones((3, len(family)))
    for at, one in enumerate(family):
        if one.is_testable:
            tests[at] = interval(one.differences, ALPHA / count, design.looks)
            p[0, at] = tests[at].p
            if design.margin:
                p[1, at] = equivalence(one.differences, design.margins(one), design.looks)
            # With fewer seeds no permutation is rare enough; at looks it would be several tests.
            if not design.looks and 2.0 ** (1 - len(one.pairs)) * count < ALPHA:
                p[2, at] = permutation(one.differences)
    corrected = holm(np.where(counted, p, np.nan)).T.tolist()
    return [
        Outcome(tests[at], float(p[1, at]), *corrected[at]) if at in tests else None
        for at in range(len(family))
    ]


def conclude(
    one: Comparison,
    outcome: Outcome | None,
    other: Outcome | None,
    count: int,
    mode: Mode,
    level: float,
    design: Design,
) -> Judged:
    """The numbers, verdict and sentence of a comparison, the interval of its mean at ``level``;
    ``other`` is its outcome without the runs that diverged.
    """
    values = list(one.own.values())
    has_interval = len(values) > 1 and len(values) >= one.fewest * bool(design.looks)
    around = (
        interval(values, level, design.looks)
        if has_interval and has_variance(values, one.scale)
        else None
    )
    why = design.why_no_verdict(len(one.pairs), one.failed, one.unfinished)
    verdict, depends = decide(one, [None, None] if why else [outcome, other], mode)
    if depends:
        sentence = sentences.depends(one, outcome, other, count, design)
    elif outcome is None:
        sentence = sentences.untested(one)
    else:
        sentence = sentences.tested(one, verdict, outcome, count, why, design)
    test = None if outcome is None else outcome.test
    return Judged(
        labels=one.labels,
        seeds=len(values),
        pairs=len(one.pairs),
        mean=fmean(values) if values else None,
        low=None if around is None else float(around.low),
        high=None if around is None else float(around.high),
        difference=fmean(one.differences) if one.pairs and not one.is_baseline else None,
        difference_low=None if test is None else float(test.low),
        difference_high=None if test is None else float(test.high),
        p=None if test is None else float(test.p),
        p_corrected=None if outcome is None else outcome.p_corrected,
        p_equivalent=outcome.p_equivalent if outcome and design.margin else None,
        p_equivalent_corrected=outcome.p_equivalent_corrected
        if outcome and design.margin
        else None,
        verdict=verdict,
        diverged=one.diverged,
        depends=depends,
        why_open=why,
        sentence=sentence,
        notes=[*one.notes, *(sentences.shape(one) if test else ())],
    )


def decide(one: Comparison, found: Sequence[Outcome | None], mode: Mode) -> tuple[Verdict, bool]:
    """The verdict by the outcomes of all runs and of those that did not diverge, and whether it
    depends on those that did. Neither has one if the sample is not the declared one.
    """
    every, without = (
        math.nan
        if outcome is None
        else float(answers(outcome.p_corrected, outcome.p_equivalent_corrected, outcome.test.sign))
        for outcome in found
    )
    stands = float(standing(every, without))
    depends = math.isnan(stands) and not (math.isnan(every) and math.isnan(without))
    if one.is_baseline:
        return "baseline", False
    if not math.isnan(stands):
        better = (stands < 0) == (mode == "min")
        return "equivalent" if stands == 0 else "better" if better else "worse", False
    can_be_judged = one.is_testable or depends or 0 < len(one.pairs) < one.fewest
    return "not yet known" if can_be_judged else "not judged", depends


def one_axis_cells(judged: Sequence[Judged], axes: Axes, base: Setting) -> Iterator[Judged]:
    """The verdicts of cells that differ from the baseline on one axis, as values of that axis."""
    cells = {tuple(one.labels.values()): one for one in judged}
    for index, (axis, labels) in enumerate(axes.items()):
        for label in labels:
            if found := cells.get((*base[:index], label, *base[index + 1 :])):
                yield replace(found, labels={axis: label})


def remarks(scores: Scores, base: Setting, metric: str, family: Sequence[Comparison]) -> list[str]:
    """Notes on the sweep as a whole."""
    notes = []
    if not any(scores.values.values()):
        notes.append(f"no completed run has a {metric}")
    elif not scores.of(base):
        notes.append(
            f"the baseline ({', '.join(base)}) has no completed run with a {metric}: "
            "no cell can be compared with it"
        )
    compared = [one for one in family if not one.is_baseline]
    awaited = sum(one.is_awaited for one in compared)
    without = sum(not one.is_testable and not one.is_awaited for one in compared)
    for number, what in (
        (awaited, "before their runs are finished; the correction counts them"),
        (without, "and are not counted in the correction"),
    ):
        if number:
            notes.append(f"{number} of {len(compared)} comparisons have no test {what}")
    return notes


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
