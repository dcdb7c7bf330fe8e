"""The scores of a sweep's runs by setting and seed, and what of them is compared: each cell with
the baseline, the main effects of axes, and their interactions.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations, product
from statistics import fmean
from typing import Any, Literal, get_args

from tfzoo.errors import UnknownName
from tfzoo.sweep.judge.paired import has_variance
from tfzoo.sweep.judge.sequential import FIRST

Setting = tuple[str, ...]
"""The labels of a cell, in the order of the axes."""

BySeed = dict[int, float]
Seeds = dict[Setting, set[int]]
Mode = Literal["min", "max"]
"""Whether a lower or a higher score is better."""
NoBetter = Literal["diverged", "learnt nothing"]
NO_BETTER = get_args(NoBetter)
"""The states of a run that ended and is no better than untrained: its loss is not finite or rose,
or is finite and no lower than that of the same prediction for every label.
"""
Axes = Mapping[str, Sequence[str]]
Side = tuple[Setting, ...]
"""One setting, or two whose difference counts."""


@dataclass
class Scores:
    """The scores of the runs that ended, by setting and seed.

    Attributes:
        diverged: the seeds of a setting whose runs diverged, or learnt nothing. They have scores
            like the others.
        failed: those whose runs failed for another reason, or have no score.
        unfinished: those whose runs are not finished.
        words: which of :data:`NO_BETTER` there are.
    """

    values: dict[Setting, BySeed] = field(default_factory=dict)
    diverged: Seeds = field(default_factory=lambda: defaultdict(set))
    failed: Seeds = field(default_factory=lambda: defaultdict(set))
    unfinished: Seeds = field(default_factory=lambda: defaultdict(set))
    words: set[str] = field(default_factory=set)

    def of(self, setting: Setting) -> BySeed:
        """The scores of a setting by seed; empty if it has none."""
        return self.values.get(setting, {})

    @property
    def what(self) -> str:
        """What became of the runs that are no better than untrained."""
        return " or ".join(sorted(self.words))

    def without_diverged(self) -> Scores:
        """The same without the scores of the runs that diverged."""
        kept = {
            setting: {seed: score for seed, score in own.items() if seed not in gone}
            for setting, own in self.values.items()
            for gone in [self.diverged.get(setting, ())]
        }
        return replace(self, values=kept)


def scores_by_seed(
    rows: Iterable[Mapping[str, Any]],
    axes: Iterable[str],
    metric: str,
    mode: Mode,
    untrained: float | None = None,
) -> Scores:
    """One metric of all rows, whose values may be text, as from a CSV. Rows without a seed are left
    out.

    Where a run diverged and its score is not finite, ``untrained`` stands for it, the score of a
    model that knows nothing; if that is None, the worst score of all runs.
    """
    axes, scores = list(axes), Scores()
    for row in rows:
        setting = tuple(str(row.get(axis, "")) for axis in axes)
        own = scores.values.setdefault(setting, {})
        number, value = parse_number(row.get("seed")), parse_number(row.get(metric))
        # a table with gaps has stored it as 1.0
        seed = None if number is None or not number.is_integer() else int(number)
        status = str(row.get("status") or "completed")
        if seed is None:
            continue
        if status in NO_BETTER or (value is not None and not math.isfinite(value)):
            scores.diverged[setting].add(seed)
            scores.words.add(status if status in NO_BETTER else "diverged")
            own[seed] = math.nan if value is None else value
        elif status == "failed" or (status == "completed" and value is None):
            scores.failed[setting].add(seed)
        elif status != "completed" or value is None:
            scores.unfinished[setting].add(seed)
        else:
            own[seed] = value
    finite = [one for own in scores.values.values() for one in own.values() if math.isfinite(one)]
    worst = max(finite, default=math.nan) if mode == "min" else min(finite, default=math.nan)
    stand_in = worst if untrained is None else untrained
    for setting, own in scores.values.items():
        known = {seed: one if math.isfinite(one) else stand_in for seed, one in own.items()}
        scores.values[setting] = {seed: one for seed, one in known.items() if math.isfinite(one)}
    return scores


def listed(seeds: Sequence[int]) -> str:
    """``seed 3``, ``seeds 1, 2``."""
    return f"seed{'s' * (len(seeds) != 1)} {', '.join(map(str, seeds))}"


def parse_number(value: Any) -> float | None:
    """A number or its text as a float; None for anything else."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


@dataclass(frozen=True)
class Comparison:
    """The scores of one side and of the baseline by seed, with their names and notes.

    Attributes:
        failed, unfinished: the seeds whose runs failed, or are not finished, on either side.
        diverged: ``2 runs that diverged`` of it; ``""`` if none did.
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
    diverged: str = ""
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
    """The baseline's label on each axis: the given one, else the first."""
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
            labels,
            name(axes, labels, base),
            # its labels on the axes on which the cell differs from it
            ", ".join([b for a, b in zip(setting, base, strict=True) if a != b] or base),
            own,
            scores.of(base),
            (),
            setting == base,
            *what_became(scores, {setting, base}),
        )
        for setting, own in scores.values.items()
        for labels in [dict(zip(axes, setting, strict=True))]
    ]


def what_became(scores: Scores, settings: Iterable[Setting]) -> tuple[list[int], list[int], str]:
    """The seeds of these settings whose runs failed, and are not finished, and how many runs are no
    better than untrained, in words.
    """
    settings = set(settings)
    failed, unfinished = (
        sorted({seed for one in settings for seed in group.get(one, ())})
        for group in (scores.failed, scores.unfinished)
    )
    count = sum(len(scores.diverged.get(one, ())) for one in settings)
    return failed, unfinished, f"{count} run{'s' * (count > 1)} that {scores.what}" * bool(count)


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


def name(axes: Collection[str], labels: Mapping[str, str], base: Setting) -> str:
    """The name of a cell, or of a value of an axis: its label or, with several axes, axis and label
    of each axis on which it differs from the baseline.
    """
    if len(axes) == 1 or (*labels.values(),) == base:
        return ", ".join(labels.values())
    return ", ".join(
        f"{axis_name(axes, axis)} {label}"
        for axis, label in labels.items()
        if label != dict(zip(axes, base, strict=True))[axis]
    )


def axis_name(axes: Iterable[str], axis: str) -> str:
    """The last part of a dotted key, or the key if another axis ends the same."""
    last = axis.rpartition(".")[2]
    return last if Counter(one.rpartition(".")[2] for one in axes)[last] == 1 else axis
