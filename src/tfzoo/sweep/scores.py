"""The rows of a sweep's table as one metric by setting and seed, and what is missing from it, in
words.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Setting = tuple[str, ...]
"""The labels of a cell, in the order of the axes."""

BySeed = dict[int, float]


@dataclass
class Scores:
    """What the finished runs of each setting scored, by seed; ``notes`` says of each setting what
    is missing, and why.
    """

    values: dict[Setting, BySeed] = field(default_factory=dict)
    notes: dict[Setting, list[str]] = field(default_factory=lambda: defaultdict(list))

    def of(self, setting: Setting) -> BySeed:
        """Nothing for a setting that is not there."""
        return self.values.get(setting, {})


def gather(rows: Iterable[Mapping[str, Any]], axes: Iterable[str], metric: str) -> Scores:
    """One metric of all rows; values may be text, as from a CSV. Of a seed that stands more than
    once the mean counts.
    """
    axes, scores = list(axes), Scores()
    several: dict[tuple[Setting, int], list[float]] = defaultdict(list)
    for row in rows:
        setting = tuple(str(row.get(axis, "")) for axis in axes)
        scores.values.setdefault(setting, {})
        seed, value = whole(row.get("seed")), number(row.get(metric))
        status, why = str(row.get("status") or "completed"), row.get("reason") or ""
        if status == "refused":
            scores.notes[setting].append(f"refused: {why or 'no reason given'}")
        elif seed is None:
            scores.notes[setting].append(f"a run without a seed is left out ({status})")
        elif status == "failed":
            scores.notes[setting].append(
                f"seed {seed} failed and is left out: {why or 'no reason given'}"
            )
        elif status != "completed":
            scores.notes[setting].append(f"seed {seed} has not finished ({status})")
        elif value is None:
            scores.notes[setting].append(f"seed {seed} has no {metric}")
        elif not math.isfinite(value):
            scores.notes[setting].append(f"seed {seed} is left out: its {metric} is {value}")
        else:
            several[setting, seed].append(value)
    for (setting, seed), found in several.items():
        scores.values[setting][seed] = sum(found) / len(found)
        if len(found) > 1:
            scores.notes[setting].append(
                f"seed {seed} stands {len(found)} times: their mean counts"
            )
    return scores


def number(value: Any) -> float | None:
    """Of a number or its text; None where there is neither."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def whole(value: Any) -> int | None:
    """A seed, also as a table has it that made floats of a column with gaps."""
    found = number(value)
    return int(found) if found is not None and found.is_integer() else None
