"""Whether a run diverged, and how often the runs of a cell did, beside the baseline's."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tfzoo.sweep.judge.design import Design
from tfzoo.sweep.judge.effects import Comparison
from tfzoo.sweep.judge.paired import ALPHA, EQUAL, correct
from tfzoo.sweep.judge.sentences import format_corrected, hint
from tfzoo.sweep.judge.sequential import FIRST, LATE

Count = tuple[int, int]
"""How many runs diverged, of how many."""


def why_diverged(
    scores: Mapping[str, float | None],
    logged: Mapping[str, Mapping[int, float]],
    constant_loss: float | None = None,
    *metrics: str,
) -> str:
    """Why a run has diverged, ``""`` if it has not: its last ``train/loss`` or ``val/loss``, or one
    of the metrics, is not finite; or its last ``val/loss`` is no smaller than what the same
    prediction for every label reaches. A diverged run is marked, and keeps its scores.

    Args:
        scores: of the run's summary; None stands for what is not finite.
        logged: the values of each metric by step, as in ``metrics.csv``.
        constant_loss: of the run's summary; None if it is not known.
    """
    last = {name: curve[max(curve)] for name, curve in logged.items() if curve}
    last |= {name: math.nan if score is None else score for name, score in scores.items()}
    for name in ("train/loss", "val/loss", *metrics):
        if not math.isfinite(last.get(name, 0.0)):
            return f"{name} is not finite"
    loss = last.get("val/loss")
    if loss is None or constant_loss is None or loss < constant_loss * (1 - EQUAL):
        return ""
    return (
        f"val/loss ended at {loss:.3g}; the same prediction for every label has {constant_loss:.3g}"
    )


@dataclass(frozen=True)
class Divergence:
    """How many of a cell's runs diverged, and of the baseline's, with p of Fisher's exact test and
    the same after Holm's correction for all cells of which a run diverged, here or at the baseline.
    """

    labels: dict[str, str]
    own: Count
    base: Count
    p: float
    p_corrected: float
    sentence: str


def divergences(cells: Sequence[Comparison], design: Design) -> list[Divergence]:
    """One entry for each cell of which a run diverged, or at whose baseline one did. A cell without
    any has p = 1 whatever else is true, so it is not counted in the correction (Tarone 1990). A
    pruned cell is counted and has no entry: its other runs did not come to their end.
    """
    compared, counts, p, pruned = [], [], [], 0
    for one in cells:
        own, base = (
            (len(gone), len(gone) + len(scores))
            for gone, scores in zip(one.diverged, (one.own, one.base), strict=True)
        )
        if own[0] + base[0] and one.pruned:
            pruned += 1
        elif own[0] + base[0] and own[1] and base[1]:
            compared.append(one)
            counts.append((own, base))
            p.append(min(1.0, fisher(own, base) / share(min(own[1], base[1]), design)))
    count = len(p) + pruned
    return [
        Divergence(one.labels, *both, alone, holm, sentence(one, both, holm, count, design))
        for one, both, alone, holm in zip(compared, counts, p, correct(p, pruned), strict=True)
    ]


def fisher(own: Count, base: Count) -> float:
    """p of Fisher's exact test (1935) of two shares."""
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
    one: Comparison, counts: tuple[Count, Count], p: float, comparisons: int, design: Design
) -> str:
    """``rms: 2 of 5 runs diverged, 0 of 5 of layer: not yet known whether ...``."""
    (gone, runs), (base_gone, base_runs) = counts
    said = f"{one.name}: {gone} of {runs} runs diverged, {base_gone} of {base_runs}"
    numbers = f"{format_corrected(p, comparisons)} (Fisher's exact test)"
    if p >= ALPHA or design.why_no_verdict(*one.sample):
        return f"{said} of {one.against}: not yet known whether that differs, {numbers}"
    more = gone / runs > base_gone / base_runs
    return f"{said} of {one.against}: {hint(p)}{'more' if more else 'less'} often, {numbers}"
