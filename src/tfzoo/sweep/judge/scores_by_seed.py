"""One metric of a sweep's runs by setting and seed, with notes on what is missing."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Setting = tuple[str, ...]
"""The labels of a cell, in the order of the axes."""

BySeed = dict[int, float]


@dataclass
class Scores:
    """The scores of completed runs by setting and seed.

    Attributes:
        pruned: the settings that were pruned, which have no scores, and the reasons.
        diverged: the seeds of a setting whose runs diverged: they are counted, and have no score.
        failed: those whose runs failed for another reason, or have no score.
        unfinished: those whose runs are not finished.
        notes: what is missing and why.
    """

    values: dict[Setting, BySeed] = field(default_factory=dict)
    pruned: dict[Setting, str] = field(default_factory=dict)
    diverged: dict[Setting, set[int]] = field(default_factory=lambda: defaultdict(set))
    failed: dict[Setting, set[int]] = field(default_factory=lambda: defaultdict(set))
    unfinished: dict[Setting, set[int]] = field(default_factory=lambda: defaultdict(set))
    notes: dict[Setting, list[str]] = field(default_factory=lambda: defaultdict(list))

    def of(self, setting: Setting) -> BySeed:
        """The scores of a setting by seed; empty if it has none."""
        return self.values.get(setting, {})


def scores_by_seed(rows: Iterable[Mapping[str, Any]], axes: Iterable[str], metric: str) -> Scores:
    """One metric of all rows, whose values may be text, as from a CSV. If a seed occurs more than
    once, its mean counts.
    """
    axes, scores = list(axes), Scores()
    several: dict[tuple[Setting, int], list[float]] = defaultdict(list)
    alike: dict[tuple[Setting, str], list[int]] = defaultdict(list)
    for row in rows:
        setting = tuple(str(row.get(axis, "")) for axis in axes)
        scores.values.setdefault(setting, {})
        seed, value = parse_seed(row.get("seed")), parse_number(row.get(metric))
        status, why = str(row.get("status") or "completed"), row.get("reason") or ""
        if status == "refused":
            scores.notes[setting].append(f"refused: {why or 'no reason given'}")
        elif status == "pruned":
            scores.pruned[setting] = why or "pruned"
        elif seed is None:
            scores.notes[setting].append(f"a run without a seed is omitted ({status})")
        elif status == "diverged" or (value is not None and not math.isfinite(value)):
            scores.diverged[setting].add(seed)
            alike[setting, f"diverged: {why or f'{metric} is {value}'}"].append(seed)
        elif status == "failed":
            scores.failed[setting].add(seed)
            alike[setting, f"failed: {why or 'no reason given'}"].append(seed)
        elif status != "completed":
            scores.unfinished[setting].add(seed)
            scores.notes[setting].append(f"seed {seed} is not finished ({status})")
        elif value is None:
            scores.failed[setting].add(seed)
            scores.notes[setting].append(f"seed {seed} has no {metric}")
        else:
            several[setting, seed].append(value)
    for (setting, what), seeds in alike.items():
        scores.notes[setting].append(f"{listed(seeds)} {what}")
    for (setting, seed), found in several.items():
        if setting in scores.pruned:
            continue
        scores.values[setting][seed] = sum(found) / len(found)
        if len(found) > 1:
            scores.notes[setting].append(f"seed {seed} occurs {len(found)} times; the mean is used")
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
