"""What a run came to, judged from the files in its folder alone, whoever asks and whenever."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tfzoo.base.bounded_files import object_of
from tfzoo.runs.files import replace_text
from tfzoo.runs.folder import CONFIG, is_complete, read_config, read_summary
from tfzoo.runs.logged import logged_curves
from tfzoo.sweep.judge.diverged import why_diverged
from tfzoo.sweep.plan.sweep_file import Budget

FAILED = "failed.json"
"""Why a run failed that could not write it into its summary, in the run's folder."""
OVER = ("completed", "diverged", "failed")
"""The states of a run that is not trained further."""


@dataclass(frozen=True)
class Outcome:
    """What a run came to.

    Attributes:
        state: ``diverged`` is a run that ended, or was ended, by
            :func:`tfzoo.sweep.judge.diverged.why_diverged`; it keeps its scores. An ``interrupted``
            one can go on, a ``missing`` one has not begun.
        reason: why it diverged or failed.
    """

    state: Literal["completed", "diverged", "failed", "interrupted", "missing"]
    reason: str | None = None

    @property
    def is_over(self) -> bool:
        """Whether the run is not trained further."""
        return self.state in OVER


def outcome(folder: Path, metrics: Sequence[str], budget: Budget) -> Outcome:
    """What the run in a folder came to, which is to measure ``metrics``, the first of which
    decides whether it diverged, and to use its budget.
    """
    summary = read_summary(folder)
    fit = summary.get("fit", {})
    word, _, why = str(fit.get("ended", "")).partition(": ")
    if word == "diverged":
        return Outcome("diverged", why)
    if word == "failed":
        return Outcome("failed", why)
    if recorded := object_of(folder / FAILED):
        return Outcome("failed", str(recorded.get("reason", "no reason was recorded")))
    if not is_complete(folder) or (is_tested(metrics) and "test" not in summary):
        return Outcome("interrupted" if (folder / CONFIG).is_file() else "missing")
    if reason := unused_budget(folder, fit, budget):
        return Outcome("failed", reason)
    measured = scores(folder)
    if metrics[0] not in measured:
        return Outcome("failed", f"it measured no {metrics[0]}")
    why = why_diverged(measured, logged_curves(folder), fit.get("constant_loss"), metrics[0])
    return Outcome("diverged", why) if why else Outcome("completed")


def is_tested(metrics: Sequence[str]) -> bool:
    """Whether a run is scored on its test sets."""
    return any(name.startswith("test/") for name in metrics)


def unused_budget(folder: Path, fit: dict[str, Any], budget: Budget) -> str:
    """Why a run that ended did not use the budget that all cells have; ``""`` if it did."""
    steps, tokens = fit.get("steps", 0), fit.get("tokens", 0)
    max_steps = (read_config(folder).get("trainer") or {}).get("max_steps") or -1
    unfinished = steps < max_steps or tokens < (budget.tokens or 0)
    if fit.get("seconds", 0) >= budget.seconds and unfinished:
        return f"budget.time {budget.time} was over after {steps:,} steps"
    if budget.tokens and tokens < budget.tokens and steps >= max_steps > 0:
        return (
            f"trainer.max_steps ended it after {tokens:,} of {budget.tokens:,} tokens "
            "(budget.tokens): raise it"
        )
    return ""


def scores(folder: Path) -> dict[str, float | None]:
    """All ``val/*`` and ``test/*`` scores of a run; None stands for one that was not finite."""
    found = read_summary(folder)
    return {**found.get("fit", {}).get("scores", {}), **found.get("test", {}).get("scores", {})}


def record_failure(folder: Path, reason: str) -> None:
    """Record why a run failed, in one line."""
    folder.mkdir(parents=True, exist_ok=True)
    replace_text(folder / FAILED, json.dumps({"reason": " ".join(reason.split())}) + "\n")
