"""The comparisons of a sweep: each cell with the baseline, the main effects of axes, and their
interactions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, product
from statistics import fmean

from tfzoo.errors import UnknownName
from tfzoo.sweep.judge.paired import has_variance
from tfzoo.sweep.judge.scores_by_seed import BySeed, Scores, Setting, listed
from tfzoo.sweep.judge.sequential import FIRST

Axes = Mapping[str, Sequence[str]]
Side = tuple[Setting, ...]
"""One setting, or two whose difference counts."""


@dataclass(frozen=True)
class Comparison:
    """The scores of one side and of the baseline by seed, with their names and notes.

    Attributes:
        failed, unfinished: the seeds whose runs failed, or are not finished, on either side.
        diverged: how many of its runs diverged.
        fewest: how many pairs a test needs.
    """

    labels: dict[str, str]
    name: str
    against: str
    own: BySeed
    base: BySeed
    notes: tuple[str, ...]
    is_baseline: bool
    failed: Sequence[int] = ()
    unfinished: Sequence[int] = ()
    diverged: int = 0
    fewest: int = FIRST

    @cached_property
    def pairs(self) -> list[int]:
        """The seeds that both sides have."""
        return sorted(self.own.keys() & self.base.keys())

    @cached_property
    def differences(self) -> list[float]:
        """The paired differences to the baseline, by seed."""
        return [self.own[seed] - self.base[seed] for seed in self.pairs]

    @cached_property
    def scale(self) -> float:
        """The largest absolute score."""
        return max(map(abs, [*self.own.values(), *self.base.values()]))

    @property
    def is_testable(self) -> bool:
        """Whether there is a test: enough pairs, and differences with a variance."""
        return (
            not self.is_baseline
            and len(self.pairs) >= self.fewest
            and bool(has_variance(self.differences, self.scale))
        )

    @property
    def is_awaited(self) -> bool:
        """Whether there is no test before its runs are finished."""
        return bool(self.unfinished) and not self.is_baseline and not self.is_testable

    def at_look(self, looks: Sequence[int]) -> Comparison:
        """What the last of the declared looks has seen: the first pairs, up to the first seed whose
        run is not finished. Itself where no looks are declared.
        """
        if not looks:
            return self
        before = min(self.unfinished, default=max(self.pairs, default=0) + 1)
        pairs = [seed for seed in self.pairs if seed < before]
        count = max((look for look in looks if look <= len(pairs)), default=0)
        if count:
            pairs = pairs[:count]
        own, base = ({seed: side[seed] for seed in pairs} for side in (self.own, self.base))
        return replace(self, own=own, base=base, fewest=looks[0])


def baseline(axes: Axes, given: Mapping[str, str]) -> Setting:
    """The baseline's label on each axis: the given one, else the first.

    Raises:
        UnknownName: a label is given for what is no axis.
    """
    for axis in given:
        if axis not in axes:
            raise UnknownName("axis", axis, axes)
    return tuple(str(given.get(axis, labels[0])) for axis, labels in axes.items())


def is_grid(scores: Scores, base: Setting) -> bool:
    """Whether some cell differs from the baseline on more than one axis. If none does, the cells
    themselves are the effects of the axes.
    """
    return any(
        sum(a != b for a, b in zip(setting, base, strict=True)) > 1 for setting in scores.values
    )


def cells(scores: Scores, axes: Axes, base: Setting) -> list[Comparison]:
    """The comparison of each cell with the baseline, in the order of the rows."""
    return [
        Comparison(
            dict(zip(axes, setting, strict=True)),
            name(axes, setting, base),
            baseline_name(setting, base),
            own,
            scores.of(base),
            tuple(scores.notes[setting]),
            setting == base,
            *what_became(scores, {setting, base}),
        )
        for setting, own in scores.values.items()
    ]


def what_became(scores: Scores, settings: Iterable[Setting]) -> tuple[list[int], list[int], int]:
    """The seeds of these settings whose runs failed, and are not finished, and how many runs
    diverged.
    """
    settings = set(settings)
    failed, unfinished = (
        sorted({seed for one in settings for seed in group.get(one, ())})
        for group in (scores.failed, scores.unfinished)
    )
    return failed, unfinished, sum(len(scores.diverged.get(one, ())) for one in settings)


def main_effects(scores: Scores, axes: Axes, base: Setting) -> Iterator[Comparison]:
    """The main effect of each value of each axis, averaged over the settings of the others."""
    for axis, label, contexts in values_of_axes(scores, axes, base):
        others = ", ".join(axis_name(axes, other) for other in axes if other != axis)
        against = base[list(axes).index(axis)]
        yield averaged(
            scores,
            [((own,), (other,)) for own, other in contexts],
            {axis: label},
            f"{axis_name(axes, axis)} {label}, averaged over {others}",
            against,
            label == against,
        )


def values_of_axes(
    scores: Scores, axes: Axes, base: Setting
) -> Iterator[tuple[str, str, list[tuple[Setting, Setting]]]]:
    """Each axis and each of its values with, for each setting of the other axes, the cell of this
    value and that of the baseline's.
    """
    for at, (axis, labels) in enumerate(axes.items()):
        others = dict.fromkeys((one[:at], one[at + 1 :]) for one in scores.values)
        for label in labels:
            pairs = [((*a, label, *b), (*a, base[at], *b)) for a, b in others]
            yield axis, label, pairs


def interactions(scores: Scores, axes: Axes, base: Setting) -> Iterator[Comparison]:
    """For each two axes and values ``a`` and ``b`` that are not the baseline's ``a0`` and ``b0``:
    ``y[a, b] - y[a0, b]``, compared with ``y[a, b0] - y[a0, b0]``, averaged over the settings of
    the other axes.
    """
    for one, other in combinations(axes, 2):
        a0, b0 = (base[list(axes).index(axis)] for axis in (one, other))
        settings = [dict(zip(axes, setting, strict=True)) for setting in scores.values]
        for a, b in product(axes[one], axes[other]):
            if a == a0 or b == b0:
                continue
            sides = dict.fromkeys(
                tuple(
                    tuple(tuple({**rest, one: x, other: y}.values()) for x in (a, a0))
                    for y in (b, b0)
                )
                for rest in settings
            )
            name = f"the effect of {axis_name(axes, one)} {a} at {b}"
            contexts = [(here, there) for here, there in sides]
            yield averaged(scores, contexts, {one: a, other: b}, name, f"that at {b0}")


def averaged(
    scores: Scores,
    contexts: Sequence[tuple[Side, Side]],
    labels: dict[str, str],
    name: str,
    against: str,
    is_baseline: bool = False,
) -> Comparison:
    """The comparison of two sides, for each seed the mean over the contexts in which that seed has
    all scores; notes list the others.
    """
    shared = [
        set.intersection(*({*scores.of(setting)} for side in both for setting in side))
        for both in contexts
    ]
    used = {
        seed: [index for index, seeds in enumerate(shared) if seed in seeds]
        for seed in sorted(set.union(set(), *shared))
    }
    by_count: dict[int, list[int]] = {}
    for seed, use in used.items():
        by_count.setdefault(len(use), []).append(seed)
    notes = [
        f"unbalanced: averaged over {count} of {len(contexts)} settings with {listed(seeds)}"
        for count, seeds in by_count.items()
        if count < len(contexts)
    ]

    def score(side: Side, seed: int) -> float:
        first, *rest = (scores.of(setting)[seed] for setting in side)
        return first - sum(rest)

    own, base = (
        {seed: fmean(score(contexts[i][k], seed) for i in use) for seed, use in used.items()}
        for k in (0, 1)
    )
    settings = {setting for both in contexts for side in both for setting in side}
    return Comparison(
        *(labels, name, against, own, base, tuple(notes), is_baseline),
        *what_became(scores, settings),
    )


def name(axes: Axes, setting: Setting, base: Setting) -> str:
    """The name of a cell: its label or, with several axes, axis and label of each axis on which it
    differs from the baseline.
    """
    if len(axes) == 1 or setting == base:
        return ", ".join(setting)
    return ", ".join(
        f"{axis_name(axes, axis)} {own}"
        for axis, own, other in zip(axes, setting, base, strict=True)
        if own != other
    )


def baseline_name(setting: Setting, base: Setting) -> str:
    """The baseline's labels on the axes on which a cell differs from it."""
    return ", ".join(
        other for own, other in zip(setting, base, strict=True) if own != other
    ) or ", ".join(base)


def axis_name(axes: Iterable[str], axis: str) -> str:
    """The last part of a dotted key, or the key if another axis ends the same."""
    last = axis.rpartition(".")[2]
    return last if Counter(one.rpartition(".")[2] for one in axes)[last] == 1 else axis
