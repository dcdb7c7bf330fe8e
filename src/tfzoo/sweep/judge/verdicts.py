"""The verdicts of a sweep by one metric: means, differences to the baseline paired by seed, p."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from math import prod
from statistics import fmean
from typing import Any, Literal, get_args

from tfzoo.errors import UnknownName
from tfzoo.sweep.judge import effects, sentences
from tfzoo.sweep.judge.design import UNDECLARED, Design
from tfzoo.sweep.judge.diverged import Divergence, divergences
from tfzoo.sweep.judge.effects import Axes, Comparison
from tfzoo.sweep.judge.paired import (
    ALPHA,
    Mode,
    Outcome,
    correct,
    equivalence,
    has_variance,
    interval,
    selected_level,
)
from tfzoo.sweep.judge.scores_by_seed import Scores, Setting, scores_by_seed
from tfzoo.sweep.judge.sequential import FIRST

Verdict = Literal["baseline", "better", "worse", "equivalent", "not yet known", "not judged"]


@dataclass(frozen=True)
class Judged:
    """A cell compared with the baseline, or the main effect of one value of an axis. A number that
    does not exist is None.

    Attributes:
        labels: the cell's label by axis; for a main effect, of that axis only.
        seeds, pairs: the number of seeds in the mean, and in the difference.
        mean, low, high: the mean over seeds and its 95 % confidence interval.
        difference, difference_low, difference_high: the mean paired difference to the baseline and
            its 95 % confidence interval, which is not corrected for the number of comparisons.
        p, p_corrected: of the paired t test, and after Holm's correction for all comparisons of the
            metric.
        p_equivalent, p_equivalent_corrected: of the two one-sided tests that the difference lies
            within the margin, and after Holm's correction; None without a margin.
        verdict: ``better`` or ``worse`` if ``p_corrected`` is below 0.05, else ``equivalent`` if
            ``p_equivalent_corrected`` is.
        why_open: why the sample has no verdict, whatever its numbers are; else ``""``.
        sentence: verdict and numbers as one sentence.
        notes: what is missing, one sentence each.
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
    why_open: str
    sentence: str
    notes: list[str]

    @property
    def is_hint(self) -> bool:
        """Whether there is a verdict whose corrected p is not clearly below 5 %."""
        p = self.p_equivalent_corrected if self.verdict == "equivalent" else self.p_corrected
        return self.verdict != "not yet known" and p is not None and bool(sentences.hint(p))


@dataclass(frozen=True)
class Verdicts:
    """The verdicts by one metric on all cells and all values of axes, corrected together for
    ``comparisons`` tests. If it is no grid, the cells are the effects of the axes.

    ``smallest`` says which difference they could detect, with a probability of 0.8. ``diverged``
    has an entry for each cell that diverged, or whose baseline did.
    """

    metric: str
    mode: Mode
    is_grid: bool
    cells: list[Judged]
    axes: list[Judged]
    notes: list[str]
    comparisons: int
    smallest: str
    diverged: list[Divergence]
    design: Design


def judge(
    rows: Iterable[Mapping[str, Any]],
    axes: Axes,
    baseline: Mapping[str, str],
    metric: str,
    mode: Mode,
    design: Design = UNDECLARED,
) -> Verdicts:
    """Compare every cell and every value of every axis with the baseline, seed by seed.

    Args:
        rows: one per run, as in ``runs.csv``: a label for each axis, ``seed``, ``status``,
            ``reason``, and metrics.
        axes: the labels of each axis.
        baseline: the baseline's label on each axis; the first label if none is given.
        metric: the column to compare.
        mode: whether lower (``min``) or higher (``max``) is better.
        design: the margin within which differences do not matter, and how the number of seeds was
            chosen.

    Returns:
        Cells in the order of the rows, values of axes in the order of ``axes``. If no cell differs
        from the baseline on more than one axis, the verdict of a value is that of its cell, and is
        counted once. What was pruned has no test, but is counted, as if its p were 1: the
        correction is then for all comparisons that were planned, whatever pruning left of them. So
        is what has no test before its runs are finished: no verdict is taken back by them.
        The intervals of what was not pruned are as much wider as selection demands (Benjamini and
        Yekutieli 2005): each has the level ``1 - 0.05 tests / comparisons``.

    Raises:
        UnknownName: another mode, or a baseline on what is no axis.
    """
    if mode not in get_args(Mode):
        raise UnknownName("mode", mode, get_args(Mode))
    base = effects.baseline(axes, baseline)
    scores = scores_by_seed(rows, axes, metric)
    grid = effects.is_grid(scores, base)
    cells = effects.cells(scores, axes, base)
    family = [*cells, *(effects.main_effects(scores, axes, base) if grid else ())]
    tested = [one for one in family if one.is_testable]
    alpha = selected_level(len(tested), sum(bool(one.pruned) for one in family))
    awaited = sum(one.is_awaited for one in family)
    count = len(tested) + awaited
    tests = [interval(one.differences, alpha, design.most) for one in tested]
    different = correct([float(test.p) for test in tests], awaited)
    p = [
        float(equivalence(one.differences, design.margins(one), design.most))
        for one in tested
        if design.margin
    ]
    outcomes = iter(
        [
            Outcome(*numbers)
            for numbers in zip_longest(tests, different, p, correct(p, awaited) if p else ())
        ]
    )
    judged = [
        conclude(one, next(outcomes) if one.is_testable else None, count, mode, alpha, design)
        for one in family
    ]
    return Verdicts(
        metric,
        mode,
        grid,
        judged[: len(cells)],
        judged[len(cells) :] if grid else list(one_axis_cells(judged, axes, base)),
        remarks(scores, axes, base, metric, [one for one in family if not one.is_baseline]),
        count,
        sentences.smallest_effect(tested, count, design),
        divergences([one for one in cells if not one.is_baseline], design),
        design,
    )


def conclude(
    one: Comparison,
    outcome: Outcome | None,
    comparisons: int,
    mode: Mode,
    alpha: float,
    design: Design,
) -> Judged:
    """The numbers, verdict and sentence of one comparison, the interval of its mean at ``alpha``
    unless it is the baseline's, which was not selected.
    """
    values, level = list(one.own.values()), ALPHA if one.is_baseline else alpha
    around = (
        interval(values, level, design.most)
        if len(values) > 1 and has_variance(values, one.scale)
        else None
    )
    difference = fmean(one.differences) if one.pairs and not one.is_baseline else None
    verdict = decide(one, outcome, mode, design)
    test = None if outcome is None else outcome.test
    notes = [*one.notes, *one.unpaired()]
    if len(values) == 1:
        notes.append("one seed: no confidence interval")
    elif values and around is None:
        notes.append(f"equal for all {len(values)} seeds: no confidence interval")
    return Judged(
        labels=one.labels,
        seeds=len(values),
        pairs=len(one.pairs),
        mean=fmean(values) if values else None,
        low=None if around is None else float(around.low),
        high=None if around is None else float(around.high),
        difference=difference,
        difference_low=None if test is None else float(test.low),
        difference_high=None if test is None else float(test.high),
        p=None if test is None else float(test.p),
        p_corrected=None if outcome is None else outcome.p_corrected,
        p_equivalent=None if outcome is None else outcome.p_equivalent,
        p_equivalent_corrected=None if outcome is None else outcome.p_equivalent_corrected,
        verdict=verdict,
        why_open=design.why_no_verdict(*one.sample),
        sentence=sentences.untested(one)
        if outcome is None
        else sentences.tested(one, verdict, outcome, comparisons, mode, design),
        notes=notes,
    )


def decide(one: Comparison, outcome: Outcome | None, mode: Mode, design: Design) -> Verdict:
    """``better`` or ``worse`` if the corrected p is below 0.05, else ``equivalent`` if that of
    equivalence is. A sample that is not the declared one has no verdict.
    """
    if one.is_baseline:
        return "baseline"
    if outcome is None:
        return "not yet known" if one.pairs and len(one.pairs) < FIRST else "not judged"
    if design.why_no_verdict(*one.sample):
        return "not yet known"
    if outcome.p_corrected < ALPHA:
        return outcome.direction(mode)
    if outcome.is_equivalent:
        return "equivalent"
    return "not yet known"


def one_axis_cells(judged: Sequence[Judged], axes: Axes, base: Setting) -> Iterator[Judged]:
    """The verdicts of cells that differ from the baseline on one axis, as values of that axis."""
    cells = {tuple(one.labels.values()): one for one in judged}
    for index, (axis, labels) in enumerate(axes.items()):
        for label in labels:
            if found := cells.get((*base[:index], label, *base[index + 1 :])):
                yield replace(found, labels={axis: label})


def remarks(
    scores: Scores,
    axes: Axes,
    base: Setting,
    metric: str,
    compared: Sequence[Comparison],
) -> list[str]:
    """Notes on the sweep as a whole."""
    notes = []
    if not any(scores.values.values()):
        notes.append(f"no completed run has a {metric}")
    elif not scores.of(base):
        notes.append(
            f"the baseline ({', '.join(base)}) has no completed run with a {metric}: "
            "no cell can be compared with it"
        )
    for index, (axis, labels) in enumerate(axes.items()):
        there = dict.fromkeys(setting[index] for setting in scores.values)
        notes += [f"{axis}: {label} has no run" for label in labels if label not in there]
        notes += [
            f"{axis}: {label} has runs but is not a value of this axis"
            for label in there
            if label not in labels
        ]
    cells = prod(len(labels) for labels in axes.values())
    if effects.is_grid(scores, base) and len(scores.values) < cells:
        notes.append(f"{cells - len(scores.values)} of the grid's {cells} cells are missing")
    pruned = sum(bool(one.pruned) for one in compared)
    if pruned:
        notes.append(
            f"{pruned} of {len(compared)} comparisons have no test because cells were pruned; the "
            "correction counts them. The cells that went on did well early, perhaps by luck; their "
            "intervals are wider to allow for that"
        )
    awaited = sum(one.is_awaited for one in compared)
    if awaited > pruned:
        notes.append(
            f"{awaited - pruned} of {len(compared)} comparisons have no test before their runs are "
            "finished; the correction counts them"
        )
    tested = sum(one.is_testable for one in compared)
    if without := len(compared) - awaited - tested:
        notes.append(
            f"{without} of {len(compared)} comparisons have no test"
            + (f"; the correction is for the other {tested + awaited}" if tested else "")
        )
    return notes
