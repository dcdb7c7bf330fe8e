"""Whether the effect of one axis depends on another: differences of differences, paired by seed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from statistics import fmean
from typing import Any

from tfzoo.sweep.judge import effects
from tfzoo.sweep.judge.design import UNDECLARED, Design
from tfzoo.sweep.judge.effects import Axes, axis_name
from tfzoo.sweep.judge.paired import ALPHA, correct, has_variance, interval, selected_level
from tfzoo.sweep.judge.scores_by_seed import Scores, Setting, scores_by_seed
from tfzoo.sweep.judge.sentences import format_corrected, format_estimate, format_size, hint
from tfzoo.sweep.judge.sequential import FIRST


@dataclass(frozen=True)
class Interaction:
    """How much more a value ``a`` changes the metric at a value ``b`` of another axis than at the
    baseline's: ``(y[a, b] - y[base, b]) - (y[a, base] - y[base, base])``, the mean over seeds.

    Attributes:
        labels: the two axes with ``a`` and ``b``.
        seeds: the number of seeds that all four cells have.
        here, there: the effect of ``a`` at ``b``, and at the baseline's value of that axis.
        difference, low, high: ``here - there`` and its 95 % confidence interval, which is not
            corrected for the number of comparisons.
        p, p_corrected: of the paired t test, and after Holm's correction for all of the metric.
        notes: what is missing.
    """

    labels: dict[str, str]
    seeds: int
    here: float | None = None
    there: float | None = None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    p_corrected: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def axes(self) -> tuple[str, ...]:
        """The axis whose effect it is, and the one on which that may depend."""
        return tuple(self.labels)


@dataclass(frozen=True)
class Dependence:
    """One sentence on whether the effect of an axis depends on another, and what it is based on."""

    axes: tuple[str, str]
    sentence: str
    found: list[Interaction]


def interactions(
    rows: Iterable[Mapping[str, Any]],
    axes: Axes,
    baseline: Mapping[str, str],
    metric: str,
    design: Design = UNDECLARED,
) -> list[Dependence]:
    """Test for each pair of axes whether the effect of the first depends on the second. The
    arguments are those of :func:`tfzoo.sweep.judge.verdicts.judge`.

    Settings of further axes are averaged over. What involves a pruned cell has no test, and what
    involves a run that is not finished may have none yet: both are counted in the correction as if
    their p were 1. Empty unless cells differ from the baseline on two axes at once.
    """
    base = effects.baseline(axes, baseline)
    scores = scores_by_seed(rows, axes, metric)
    if not effects.is_grid(scores, base):
        return []
    start = dict(zip(axes, base, strict=True))
    couples = list(combinations(axes, 2))
    wanted = [
        {one: a, other: b}
        for one, other in couples
        for a, b in product(axes[one], axes[other])
        if a != start[one] and b != start[other]
    ]
    corners = [list(corner_settings(scores, axes, base, labels)) for labels in wanted]
    compared = [[cell for four in all_four for cell in four] for all_four in corners]
    gone = [sum(cell in scores.pruned for cell in cells) for cells in compared]
    pruned = sum(map(bool, gone))
    alpha = selected_level(len(gone) - pruned, pruned)
    tested = [
        Interaction(labels, 0, notes=(f"{lost} of the cells that it compares were pruned",))
        if lost
        else contrast(scores, labels, all_four, alpha, design)
        for labels, all_four, lost in zip(wanted, corners, gone, strict=True)
    ]
    awaited = sum(
        one.p is None and bool(lost or effects.seeds_in(scores.unfinished, cells))
        for one, lost, cells in zip(tested, gone, compared, strict=True)
    )
    p = [one.p for one in tested if one.p is not None]
    corrected, count = iter(correct(p, awaited)), len(p) + awaited
    found = [one if one.p is None else replace(one, p_corrected=next(corrected)) for one in tested]
    return [
        Dependence(both, sentence(axes, start, metric, own, count), own)
        for both in couples
        if (own := [one for one in found if one.axes == both])
    ]


def contrast(
    scores: Scores,
    labels: dict[str, str],
    corners: Sequence[Sequence[Setting]],
    alpha: float,
    design: Design,
) -> Interaction:
    """One difference of differences, its p not corrected, its interval at ``alpha``. It has neither
    if the sample is not the declared one.
    """
    shared = [set.intersection(*({*scores.of(setting)} for setting in four)) for four in corners]
    used = [four for four, seeds in zip(corners, shared, strict=True) if seeds]
    seeds = sorted(set.intersection(*filter(None, shared))) if used else []
    notes = []
    if used and len(used) < len(corners):
        notes.append(f"over {len(used)} of {len(corners)} settings of the other axes")
    if alone := set.union(set(), *shared) - {*seeds}:
        notes.append(f"without seed {', '.join(map(str, sorted(alone)))}, which not all cells have")
    if not seeds:
        return Interaction(labels, 0, notes=(*notes, "no seed is in all four cells"))
    # (y[a, b], y[base, b], y[a, base], y[base, base]) by seed
    four = [
        [fmean(scores.of(one[corner])[seed] for one in used) for seed in seeds]
        for corner in range(4)
    ]
    here, there = (
        [own - other for own, other in zip(four[i], four[i + 1], strict=True)] for i in (0, 2)
    )
    differences = [one - other for one, other in zip(here, there, strict=True)]
    made = Interaction(labels, len(seeds), fmean(here), fmean(there), fmean(differences))
    settings = [cell for all_four in corners for cell in all_four]
    why = design.why_no_verdict(
        len(seeds),
        effects.seeds_in(scores.failed, settings),
        effects.seeds_in(scores.unfinished, settings),
    )
    made = replace(made, notes=(*notes, *([f"no test: {why}"] if why else [])))
    scale = max(abs(value) for values in four for value in values)
    if why or len(seeds) < FIRST or not has_variance(differences, scale):
        return made
    test = interval(differences, alpha, design.most)
    return replace(made, low=float(test.low), high=float(test.high), p=float(test.p))


def corner_settings(
    scores: Scores, axes: Axes, base: Setting, labels: Mapping[str, str]
) -> Iterator[list[Setting]]:
    """The four cells of a difference of differences, for each setting of the other axes."""
    start = dict(zip(axes, base, strict=True))
    settings = [dict(zip(axes, setting, strict=True)) for setting in scores.values]
    contexts = {tuple({**one, **labels}.values()): one for one in settings}
    (one, a), (other, b) = labels.items()
    for context in contexts.values():
        yield [
            tuple({**context, one: first, other: second}.values())
            for second in (b, start[other])
            for first in (a, start[one])
        ]


def sentence(
    axes: Axes, start: Mapping[str, str], metric: str, found: Sequence[Interaction], count: int
) -> str:
    """Whether the effect of the first axis depends on the second, by the clearest difference."""
    first, second = found[0].axes
    names = axis_name(axes, first), axis_name(axes, second)
    tested = [one for one in found if one.p is not None and one.p_corrected is not None]
    if not tested:
        return f"whether the effect of {names[0]} depends on {names[1]} is not judged: no test"
    one = min(tested, key=lambda one: (one.p_corrected, one.p))
    corrected = one.p_corrected or 0.0
    clear = sum((other.p_corrected or 0.0) < ALPHA for other in tested)
    a, b = one.labels.values()
    numbers = (
        f"{a} instead of {start[first]} changes {metric} by {signed(one.here)} at {b} and by "
        f"{signed(one.there)} at {start[second]}, a difference of "
        f"{format_estimate(one.difference or 0.0, one.low or 0.0, one.high or 0.0)} over "
        f"{one.seeds} seeds, {format_corrected(corrected, count)}"
    )
    if not clear:
        return f"not yet known whether the effect of {names[0]} depends on {names[1]}: {numbers}"
    others = f"; {clear} of {len(tested)} such differences are significant" * (len(tested) > 1)
    return f"{hint(corrected)}the effect of {names[0]} depends on {names[1]}: {numbers}{others}"


def signed(value: float | None) -> str:
    """``+0.12``."""
    value = value or 0.0
    return f"{'-' if value < 0 else '+'}{format_size(abs(value))}"
