"""Whether a run diverged or has learnt nothing, and how often the runs of each value of an axis
did.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import scipy

from tfzoo.sweep.judge import effects, sequential
from tfzoo.sweep.judge.design import Design
from tfzoo.sweep.judge.effects import Axes, NoBetter, Scores, Setting
from tfzoo.sweep.judge.paired import ALPHA, EQUAL, holm
from tfzoo.sweep.judge.sentences import format_p, hint

Count = tuple[int, int]
"""How many runs are no better than untrained, of how many."""
FAR = 2
"""How many times as large as at its start the loss of a run that diverged is."""


def no_better(
    scores: Mapping[str, float | None],
    logged: Mapping[str, Mapping[int, float]],
    constant_loss: float | None = None,
    *metrics: str,
) -> tuple[NoBetter, str] | None:
    """What a run that ended came to if it is no better than untrained, and why; else None. It has
    diverged if its last ``train/loss`` or ``val/loss``, or one of the metrics, is not finite. If
    its last ``val/loss`` is no smaller than what the same prediction for every label reaches, it
    has learnt nothing yet; or diverged, if that is also :data:`FAR` above the losses that were
    logged first. Such a run is marked, and keeps its scores.

    Args:
        scores: of the run's summary; None stands for what is not finite.
        logged: the values of each metric by step, as in ``metrics.csv``.
        constant_loss: of the run's summary; None if it is not known.
    """
    last = {name: curve[max(curve)] for name, curve in logged.items() if curve}
    last |= {name: math.nan if score is None else score for name, score in scores.items()}
    for name in ("train/loss", "val/loss", *metrics):
        if not math.isfinite(last.get(name, 0.0)):
            return "diverged", f"{name} is not finite"
    loss = last.get("val/loss")
    if loss is None or constant_loss is None or loss < constant_loss * (1 - EQUAL):
        return None
    losses = [logged[name] for name in ("train/loss", "val/loss") if logged.get(name)]
    start = max([constant_loss, *(curve[min(curve)] for curve in losses)])
    if loss > FAR * start:
        return "diverged", f"val/loss rose to {loss:.3g}; it began at {start:.3g} at the most"
    return "learnt nothing", "val/loss is not yet below that of the same prediction for every label"


@dataclass(frozen=True)
class Rate:
    """How many of a value's runs diverged, and of the baseline's, over all settings of the other
    axes, with p of Boschloo's test (1970), after Holm's correction for all values; and why the
    sample has no verdict, else ``""``.
    """

    name: str
    against: str
    what: str
    own: Count
    base: Count
    p: float
    why_open: str

    @property
    def sentence(self) -> str:
        """``rms: 2 of 5 runs diverged, 0 of 5 of layer: not yet known whether ...``."""
        (gone, runs), (others, of) = self.own, self.base
        said = f"{self.name}: {gone} of {runs} runs {self.what}, {others} of {of} of {self.against}"
        fewer = min(self.own, self.base, key=lambda one: one[0] / one[1])
        most = scipy.stats.binomtest(*fewer, alternative="less").proportion_ci(1 - ALPHA).high
        numbers = (
            f"{format_p(self.p)} (Boschloo's test, Holm's correction); "
            f"{fewer[0]} of {fewer[1]}: a rate of up to {100 * most:.0f} %"
        )
        if self.why_open or self.p >= ALPHA:
            because = self.why_open and f", because {self.why_open}"
            return f"{said}: not yet known whether that differs{because}, {numbers}"
        more = "more" if fewer == self.base else "less"
        return f"{said}: {hint(self.p)}{more} often, {numbers}"


def rates(scores: Scores, axes: Axes, base: Setting, design: Design) -> list[Rate]:
    """One entry for each value of an axis of which a run diverged, or of whose baseline one did. A
    value without any has p = 1 whatever else is true, so it is not counted in the correction
    (Tarone 1990). Of declared looks, the last one counts.
    """
    found = []
    for axis, label, contexts in effects.values_of_axes(scores, axes, base):
        both = [one for one in contexts if all(ended(scores, setting) for setting in one)]
        settings = [setting for one in both for setting in one]
        fewest = min((len(ended(scores, one)) for one in settings), default=0)
        look = max((one for one in design.looks if one <= fewest), default=None)
        own, other = (count(scores, [one[side] for one in both], look) for side in (0, 1))
        if own[0] + other[0] and label != (against := base[list(axes).index(axis)]):
            p = boschloo(own, other)
            why = design.why_no_verdict(fewest, (), effects.what_became(scores, settings)[1])
            if look:
                p = min(1.0, p / sequential.spent(look, design.looks))
            elif design.looks:
                why = f"the first look is at {design.looks[0]} seeds"
            name = effects.name(axes, {axis: label}, base)
            found.append(Rate(name, against, scores.what, own, other, p, why))
    corrected = holm([one.p for one in found])
    return [replace(one, p=float(p)) for one, p in zip(found, corrected, strict=True)]


def boschloo(own: Count, other: Count) -> float:
    """p of Boschloo's test that two rates are the same."""
    (gone, runs), (others, of) = own, other
    return float(scipy.stats.boschloo_exact([[gone, others], [runs - gone, of - others]]).pvalue)


def ended(scores: Scores, setting: Setting) -> list[int]:
    """The seeds of a setting whose runs ended, in order."""
    return sorted({*scores.of(setting), *scores.diverged.get(setting, ())})


def count(scores: Scores, settings: list[Setting], look: int | None) -> Count:
    """The runs of these settings that diverged, and all that ended, up to a look."""
    runs = [(one, seed) for one in settings for seed in ended(scores, one)[:look]]
    return sum(seed in scores.diverged.get(one, ()) for one, seed in runs), len(runs)
