"""Sweep files for tests, and a replacement for training that takes no time."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tfzoo.sweep.plan.sweep_file import Plan
from tfzoo.sweep.run import execution, state
from tfzoo.sweep.run.state import Run
from tfzoo.training.signals import PAUSE

TINY = {
    **{
        "data.dataset.train": 200,
        "data.dataset.val": 8,
        "data.dataset.test": 8,
        "data.dataset.long": 4,
    },
    **{
        "model.dim": 16,
        "model.layers": 1,
        "model.heads": 2,
        "search.max_length": 0.2,
        "trainer.accelerator": "cpu",
    },
    **{"trainer.log_every_n_steps": 1, "trainer.max_steps": 4, "trainer.val_check_interval": 2},
}
AXES = {"model.norm": ["layer", "rms"]}
METRIC = {"name": "val/loss", "mode": "min"}


def sweep_file(folder: Path, **changes: Any) -> Path:
    """The smallest sweep of tiny runs, with changes: None omits a key, ``overrides`` are added."""
    tree = {
        "recipe": "translation/numbers",
        "axes": AXES,
        "seeds": [1, 2],
        "metric": METRIC,
        "threads": 1,
        **changes,
    }
    tree["overrides"] = {**TINY, **(changes.get("overrides") or {})}
    path = folder / "tiny.yaml"
    path.write_text(
        yaml.safe_dump(
            {key: value for key, value in tree.items() if value is not None}, sort_keys=False
        )
    )
    return path


class Trainings:
    """Takes the place of the child process: knows which runs were trained, and lets those fail that
    it is told to.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.trained: list[str] = []
        self.paused: list[tuple[str, int]] = []
        """Runs that were to pause, and after which step; they do."""
        self.words: list[list[str]] = []
        self.codes: dict[str, int] = {}
        """Exit codes of runs whose folder holds the key."""
        self.scores: dict[str, float | None] = {}
        """The loss, likewise."""
        self.losses: list[float] = []
        """``train/loss`` of each step, which holds dropout and label smoothing."""
        self.constant_loss: float | None = None
        self.seconds = 20.0
        """What each takes, of which ``fit`` records 2."""
        patch.setattr(execution, "spawn", self.spawn)

    def spawn(self, run: Run, plan: Plan, environment: Any, *args: Any) -> int:
        self.trained.append(run.name)
        if rung := environment.get(PAUSE):
            self.paused.append((run.name, int(rung)))
        self.words.append(plan.fit_arguments(run.cell, run.tuned))
        place = run.folder.as_posix()
        told = next((code for key, code in self.codes.items() if key in place), None)
        code = (75 if rung else 0) if told is None else told
        loss = next((loss for key, loss in self.scores.items() if key in place), 1.0)
        ended = (
            "completed"
            if code == 0
            else "running"
            if code < 0
            else "interrupted"
            if code in (75, 130)
            else "failed: it broke"
        )
        summary: dict[str, Any] = {
            "fit": {
                "ended": ended,
                "scores": {"val/loss": loss},
                "constant_loss": self.constant_loss,
                "steps": 4,
                "seconds": 2.0,
            }
        }
        lines = [f"{step},{value}" for step, value in enumerate(self.losses)]
        (run.folder / "metrics.csv").write_text("\n".join(["step,train/loss", *lines, ""]))
        if rung:
            summary["fit"]["steps"] = int(rung) + 1 if told is None else 1
            rows = [f"{rung},{loss}", f"{int(rung) + 1},99.0"]
            (run.folder / "metrics.csv").write_text("\n".join(["step,val/loss", *rows, ""]))
        summary |= (
            {
                "test": {
                    "ended": "completed",
                    "scores": {"test/bleu": 1.0, "test/long/exact_match": 0.0},
                }
            }
            if code == 0
            else {}
        )
        (run.folder / "summary.json").write_text(json.dumps(summary))
        state.add_wall_seconds(run.folder, self.seconds)
        return code
