"""How often the runs of a cell diverged, beside the baseline's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tfzoo.sweep.judge.design import Design
from tfzoo.sweep.judge.effects import Comparison
from tfzoo.sweep.judge.paired import ALPHA, correct
from tfzoo.sweep.judge.sentences import format_corrected, hint
from tfzoo.sweep.judge.sequential import FIRST, LATE


@dataclass(frozen=True)
class Divergence:
    """How many of a cell's runs diverged, and of the baseline's, with p of Fisher's exact test and
    the same after Holm's correction for all cells of which a run diverged, here or at the baseline.
    """

    labels: dict[str, str]
    own: tuple[int, int]
    base: tuple[int, int]
    p: float
    p_corrected: float
    sentence: str


def divergences(cells: Sequence[Comparison], design: Design) -> list[Divergence]:
    """One entry for each cell of which a run diverged, or at whose baseline one did. A cell without
    any has p = 1 whatever else is true, so it is not counted in the correction (Tarone 1990).
    """
    found = []
    for one in cells:
        own, base = (
            (len(gone), len(gone) + len(scores))
            for gone, scores in zip(one.diverged, (one.own, one.base), strict=True)
        )
        if own[0] + base[0] and own[1] and base[1]:
            p = fisher(own, base) / share(min(own[1], base[1]), design)
            found.append(Divergence(one.labels, own, base, min(p, 1.0), 1.0, ""))
    corrected = correct([one.p for one in found])
    named = {tuple(one.labels.items()): one for one in cells}
    return [
        replace(
            one,
            p_corrected=p,
            sentence=sentence(one, p, len(found), named[tuple(one.labels.items())], design),
        )
        for one, p in zip(found, corrected, strict=True)
    ]


def fisher(own: tuple[int, int], base: tuple[int, int]) -> float:
    """p of Fisher's exact test (1935) of two shares, each ``(diverged, runs)``."""
    from scipy.stats import fisher_exact

    table = [[count, runs - count] for count, runs in (own, base)]
    return float(fisher_exact(table).pvalue)


def share(seeds: int, design: Design) -> float:
    """The share of the level that a look at so many seeds may spend: all of it unless the sample
    was declared to grow.
    """
    if design.most is None or not FIRST <= seeds <= design.most:
        return 1.0
    before = 0 if seeds == FIRST else seeds - 1
    return float((seeds**LATE - before**LATE) / design.most**LATE)


def sentence(
    one: Divergence, p: float, comparisons: int, compared: Comparison, design: Design
) -> str:
    """``rms: 2 of 5 runs diverged, 0 of 5 of layer: not yet known whether ...``."""
    counts = (
        f"{compared.name}: {one.own[0]} of {one.own[1]} runs diverged, "
        f"{one.base[0]} of {one.base[1]} of {compared.against}"
    )
    numbers = f"{format_corrected(p, comparisons)} (Fisher's exact test)"
    if p >= ALPHA or design.why_no_verdict(*compared.sample):
        return f"{counts}: not yet known whether that differs, {numbers}"
    more = one.own[0] / one.own[1] > one.base[0] / one.base[1]
    return f"{counts}: {hint(p)}{'more' if more else 'less'} often, {numbers}"
