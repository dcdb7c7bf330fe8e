"""One metric of a sweep's runs by setting and seed, with notes on what is missing."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

Setting = tuple[str, ...]
"""The labels of a cell, in the order of the axes."""

BySeed = dict[int, float]
Seeds = dict[Setting, set[int]]
Mode = Literal["min", "max"]
"""Whether a lower or a higher score is better."""


@dataclass
class Scores:
    """The scores of the runs that ended, by setting and seed.

    Attributes:
        diverged: the seeds of a setting whose runs diverged. They have scores like the others.
        failed: those whose runs failed for another reason, or have no score.
        unfinished: those whose runs are not finished.
        notes: what is missing and why.
    """

    values: dict[Setting, BySeed] = field(default_factory=dict)
    diverged: Seeds = field(default_factory=lambda: defaultdict(set))
    failed: Seeds = field(default_factory=lambda: defaultdict(set))
    unfinished: Seeds = field(default_factory=lambda: defaultdict(set))
    notes: dict[Setting, list[str]] = field(default_factory=lambda: defaultdict(list))

    def of(self, setting: Setting) -> BySeed:
        """The scores of a setting by seed; empty if it has none."""
        return self.values.get(setting, {})

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
    """One metric of all rows, whose values may be text, as from a CSV.

    Where a run diverged and its score is not finite, ``untrained`` stands for it, the score of a
    model that knows nothing; if that is None, the worst score of all runs.
    """
    axes, scores = list(axes), Scores()
    alike: dict[tuple[Setting, str], list[int]] = defaultdict(list)
    for row in rows:
        setting = tuple(str(row.get(axis, "")) for axis in axes)
        own = scores.values.setdefault(setting, {})
        seed, value = parse_seed(row.get("seed")), parse_number(row.get(metric))
        status, why = str(row.get("status") or "completed"), str(row.get("reason") or "")
        if seed in own:
            alike[setting, "given more than once: the last run counts"].append(seed)
        if seed is None:
            scores.notes[setting].append(
                f"{status}: {why}" if why else f"a run without a seed is omitted ({status})"
            )
        elif status == "diverged" or (value is not None and not math.isfinite(value)):
            scores.diverged[setting].add(seed)
            own[seed] = math.nan if value is None else value
            alike[setting, f"diverged: {why or f'{metric} is {value}'}"].append(seed)
        elif status == "failed" or (status == "completed" and value is None):
            scores.failed[setting].add(seed)
            alike[setting, f"failed: {why or f'no {metric}'}"].append(seed)
        elif status != "completed" or value is None:
            scores.unfinished[setting].add(seed)
            alike[setting, f"not finished ({status})"].append(seed)
        else:
            own[seed] = value
    for (setting, what), seeds in alike.items():
        scores.notes[setting].append(f"{listed(seeds)} {what}")
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


def parse_seed(value: Any) -> int | None:
    """A seed as an int, also if a table with gaps stored it as ``1.0``."""
    found = parse_number(value)
    return int(found) if found is not None and found.is_integer() else None
