"""The comparisons of a sweep: each cell with the baseline, and the main effect of each value of an
axis.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tfzoo.errors import UnknownName
from tfzoo.sweep.judge.paired import has_variance
from tfzoo.sweep.judge.scores_by_seed import BySeed, Scores, Setting
from tfzoo.sweep.judge.sequential import FIRST

Axes = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Comparison:
    """The scores of one side and of the baseline by seed, with their names and notes.

    Attributes:
        pruned: what of it was pruned: then it has no test.
        failed, unfinished: the seeds whose runs failed, or are not finished, on either side.
        diverged: the seeds at which a cell diverged, and at which the baseline did.
    """

    labels: dict[str, str]
    name: str
    against: str
    own: BySeed
    base: BySeed
    notes: tuple[str, ...]
    is_baseline: bool
    pruned: str = ""
    failed: Sequence[int] = ()
    unfinished: Sequence[int] = ()
    diverged: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset())

    @cached_property
    def pairs(self) -> list[int]:
        """The seeds that both sides have."""
        return sorted(self.own.keys() & self.base.keys())

    @cached_property
    def differences(self) -> list[float]:
        """The paired differences to the baseline, by seed."""
        return [self.own[seed] - self.base[seed] for seed in self.pairs]

    @property
    def sample(self) -> tuple[int, Sequence[int], Sequence[int]]:
        """The number of pairs, and the seeds whose runs failed or are not finished."""
        return len(self.pairs), self.failed, self.unfinished

    @cached_property
    def scale(self) -> float:
        """The largest absolute score."""
        return max(map(abs, [*self.own.values(), *self.base.values()]))

    @property
    def is_testable(self) -> bool:
        """Whether there is a test: at least three pairs, and differences with a variance."""
        return (
            not self.is_baseline
            and len(self.pairs) >= FIRST
            and has_variance(self.differences, self.scale)
        )

    @property
    def is_awaited(self) -> bool:
        """Whether a test was planned and there is none: a cell was pruned, or runs are not
        finished.
        """
        missing = self.pruned or self.unfinished
        return bool(missing) and not self.is_baseline and not self.is_testable

    @property
    def is_same(self) -> bool:
        """Whether there are at least three pairs and all are equal."""
        return len(self.pairs) >= FIRST and not has_variance([0.0, *self.differences], self.scale)

    def unpaired(self) -> list[str]:
        """Notes on seeds that only one side has."""
        if not self.own or not self.base:
            return []
        alone = [
            f"seed {seed} has no partner: {self.against} has no score there"
            for seed in sorted(self.own.keys() - self.base.keys())
        ]
        return alone + [
            f"seed {seed} of {self.against} has no partner here"
            for seed in sorted(self.base.keys() - self.own.keys())
        ]


def baseline(axes: Axes, given: Mapping[str, str]) -> Setting:
    """The baseline's label on each axis: the given one, else the first.

    Raises:
        UnknownName: a label is given for what is no axis.
    """
    for axis in given:
        if axis not in axes:
            raise UnknownName("axis", axis, axes)
    return tuple(str(given.get(axis, labels[0])) for axis, labels in axes.items())


def cells(scores: Scores, axes: Axes, base: Setting) -> list[Comparison]:
    """The comparison of each cell with the baseline, in the order of the rows."""
    return [
        Comparison(
            labels=dict(zip(axes, setting, strict=True)),
            name=name(axes, setting, base),
            against=baseline_name(setting, base),
            own=own,
            base=scores.of(base),
            notes=tuple(scores.notes[setting]),
            is_baseline=setting == base,
            pruned=scores.pruned.get(setting, ""),
            failed=seeds_in(scores.failed, [setting, base]),
            unfinished=seeds_in(scores.unfinished, [setting, base]),
            diverged=(
                frozenset(scores.diverged.get(setting, ())),
                frozenset(scores.diverged.get(base, ())),
            ),
        )
        for setting, own in scores.values.items()
    ]


def seeds_in(by_setting: Mapping[Setting, set[int]], settings: Iterable[Setting]) -> list[int]:
    """All seeds of these settings, in order."""
    return sorted({seed for one in settings for seed in by_setting.get(one, ())})


def is_grid(scores: Scores, base: Setting) -> bool:
    """Whether some cell differs from the baseline on more than one axis. If none does, the cells
    themselves are the effects of the axes.
    """
    return any(
        sum(a != b for a, b in zip(setting, base, strict=True)) > 1 for setting in scores.values
    )


def main_effects(scores: Scores, axes: Axes, base: Setting) -> Iterator[Comparison]:
    """The main effect of each value of each axis: for each seed the mean over the settings of the
    other axes, compared with the same mean at the baseline's value.

    A setting counts for a seed if that seed has a score on both sides; notes list the others. An
    effect of which a setting was pruned has no scores: which settings are left depends on luck.
    """
    for position, (axis, labels) in enumerate(axes.items()):
        contexts = list(
            dict.fromkeys(
                (*setting[:position], *setting[position + 1 :]) for setting in scores.values
            )
        )
        others = ", ".join(axis_name(axes, other) for other in axes if other != axis)
        for label in labels:
            settings = [
                (*context[:position], value, *context[position:])
                for context in contexts
                for value in (label, base[position])
            ]
            gone = sum(one in scores.pruned for one in settings) if label != base[position] else 0
            found = [{} if gone else scores.of(one) for one in settings]
            sides = list(zip(found[::2], found[1::2], strict=True))
            shared = [own.keys() & partner.keys() for own, partner in sides]
            seeds = sorted({seed for both in shared for seed in both})
            used = [[index for index, both in enumerate(shared) if seed in both] for seed in seeds]
            notes = (
                [] if gone else unbalanced(seeds, used, shared, contexts, f"settings of {others}")
            )
            own, partner = (
                {
                    seed: sum(sides[i][side][seed] for i in use) / len(use)
                    for seed, use in zip(seeds, used, strict=True)
                }
                for side in (0, 1)
            )
            yield Comparison(
                labels={axis: label},
                name=f"{axis_name(axes, axis)} {label}, averaged over {others}",
                against=base[position],
                own=own,
                base=partner,
                notes=tuple(notes),
                is_baseline=label == base[position],
                pruned=f"{gone} of the {len(settings)} cells that it compares were pruned"
                if gone
                else "",
                failed=seeds_in(scores.failed, settings),
                unfinished=seeds_in(scores.unfinished, settings),
            )


def unbalanced(
    seeds: Sequence[int],
    used: Sequence[Sequence[int]],
    shared: Sequence[set[int]],
    contexts: Sequence[Setting],
    what: str,
) -> list[str]:
    """Notes on what a main effect omits: settings that no seed has on both sides, and settings that
    single seeds lack.
    """
    notes, there = [], [index for index, both in enumerate(shared) if both]
    if len(there) < len(contexts):
        lost = "; ".join(
            ", ".join(context) for index, context in enumerate(contexts) if index not in there
        )
        notes.append(
            f"unbalanced: averaged over {len(there)} of {len(contexts)} {what}, "
            f"without {lost}, where one side has no scores"
        )
    notes += [
        f"unbalanced: seed {seed} is averaged over {len(use)} of {len(there)} {what}"
        for seed, use in zip(seeds, used, strict=True)
        if len(use) < len(there)
    ]
    return notes


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
