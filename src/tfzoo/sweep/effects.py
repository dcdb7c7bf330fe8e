"""What there is to compare in a sweep: each cell with the baseline, and each value of an axis with
the baseline's value of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tfzoo.sweep.paired import spreads
from tfzoo.sweep.scores import BySeed, Scores, Setting

Axes = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Comparison:
    """Scores by seed of one side and of the baseline's, with their names; ``notes`` says what is
    missing.
    """

    labels: dict[str, str]
    name: str
    against: str
    own: BySeed
    base: BySeed
    notes: tuple[str, ...]
    is_baseline: bool = False

    @cached_property
    def pairs(self) -> list[int]:
        """The seeds of both sides."""
        return sorted(self.own.keys() & self.base.keys())

    @cached_property
    def differences(self) -> list[float]:
        """Seed by seed, to the baseline."""
        return [self.own[seed] - self.base[seed] for seed in self.pairs]

    @cached_property
    def scale(self) -> float:
        """How large the numbers are."""
        return max(map(abs, [*self.own.values(), *self.base.values()]), default=0.0)

    @property
    def is_testable(self) -> bool:
        """Two seeds in common, and differences that are not all alike."""
        return (
            not self.is_baseline and len(self.pairs) > 1 and spreads(self.differences, self.scale)
        )

    @property
    def is_same(self) -> bool:
        """Two seeds in common or more, and no difference in any."""
        return len(self.pairs) > 1 and not spreads([0.0, *self.differences], self.scale)

    def unpaired(self) -> list[str]:
        """What is said of seeds that only one side has."""
        if self.is_baseline or not self.own or not self.base:
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
    """The baseline's labels: on each axis the one that is given, else the first."""
    return tuple(str(given.get(axis, labels[0])) for axis, labels in axes.items())


def cells(scores: Scores, axes: Axes, base: Setting) -> list[Comparison]:
    """Each cell with the baseline, in the order of the rows."""
    return [
        Comparison(
            labels=dict(zip(axes, setting, strict=True)),
            name=name(axes, setting, base),
            against=against(setting, base),
            own=own,
            base=scores.of(base),
            notes=tuple(scores.notes[setting]),
            is_baseline=setting == base,
        )
        for setting, own in scores.values.items()
    ]


def is_grid(scores: Scores, base: Setting) -> bool:
    """Whether some cell differs from the baseline on more than one axis; if none does, cells are
    the effects of axes themselves.
    """
    return any(
        sum(a != b for a, b in zip(setting, base, strict=True)) > 1 for setting in scores.values
    )


def mains(scores: Scores, axes: Axes, base: Setting) -> Iterator[Comparison]:
    """The main effect of each value of each axis: the mean over the settings of the other axes,
    seed by seed.

    A setting counts for a seed where that seed has a score on both sides; what is left out so is
    said.
    """
    for place, (axis, labels) in enumerate(axes.items()):
        contexts = list(
            dict.fromkeys((*setting[:place], *setting[place + 1 :]) for setting in scores.values)
        )
        others = ", ".join(short(axes, other) for other in axes if other != axis)
        for label in labels:
            sides = [
                [
                    scores.of((*context[:place], value, *context[place:]))
                    for value in (label, base[place])
                ]
                for context in contexts
            ]
            shared = [own.keys() & partner.keys() for own, partner in sides]
            seeds = sorted({seed for both in shared for seed in both})
            used = [[index for index, both in enumerate(shared) if seed in both] for seed in seeds]
            notes = unbalanced(seeds, used, shared, contexts, f"settings of {others}")
            own, partner = (
                {
                    seed: sum(sides[i][side][seed] for i in use) / len(use)
                    for seed, use in zip(seeds, used, strict=True)
                }
                for side in (0, 1)
            )
            yield Comparison(
                labels={axis: label},
                name=f"{short(axes, axis)} {label}, over all {others}",
                against=base[place],
                own=own,
                base=partner,
                notes=tuple(notes),
                is_baseline=label == base[place],
            )


def unbalanced(
    seeds: Sequence[int],
    used: Sequence[Sequence[int]],
    shared: Sequence[set[int]],
    contexts: Sequence[Setting],
    what: str,
) -> list[str]:
    """What a main effect leaves out: settings that no seed has on both sides, and those that some
    seeds lack.
    """
    notes, there = [], [index for index, both in enumerate(shared) if both]
    if len(there) < len(contexts):
        lost = "; ".join(
            ", ".join(context) for index, context in enumerate(contexts) if index not in there
        )
        notes.append(
            f"unbalanced: over {len(there)} of {len(contexts)} {what}, without {lost}, where one side has no scores"
        )
    notes += [
        f"unbalanced: seed {seed} is over {len(use)} of {len(there)} {what}"
        for seed, use in zip(seeds, used, strict=True)
        if len(use) < len(there)
    ]
    return notes


def name(axes: Axes, setting: Setting, base: Setting) -> str:
    """Of a cell: its label, and where there are several axes, axis and label of each on which it
    differs from the baseline.
    """
    if len(axes) == 1 or setting == base:
        return ", ".join(setting)
    return ", ".join(
        f"{short(axes, axis)} {own}"
        for axis, own, other in zip(axes, setting, base, strict=True)
        if own != other
    )


def against(setting: Setting, base: Setting) -> str:
    """The baseline's labels on the axes where a cell differs from it."""
    return ", ".join(
        other for own, other in zip(setting, base, strict=True) if own != other
    ) or ", ".join(base)


def short(axes: Axes, axis: str) -> str:
    """The last part of a dotted key, where that is enough to know it by."""
    last = axis.rpartition(".")[2]
    return last if Counter(one.rpartition(".")[2] for one in axes)[last] == 1 else axis
