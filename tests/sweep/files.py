"""Sweep files for tests, and a replacement for training that takes no time."""

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tfzoo.runs.folder import write_summary
from tfzoo.sweep.run import local
from tfzoo.sweep.run.state import Run

SPLITS = ("train", "val", "test", "long")
TINY = {
    **{f"data.dataset.{split}": n for split, n in zip(SPLITS, (200, 8, 8, 4), strict=True)},
    **{"model.dim": 16, "model.layers": 1, "model.heads": 2, "search.max_length": 0.2},
    **{"trainer.accelerator": "cpu", "trainer.log_every_n_steps": 1},
    **{"trainer.max_steps": 4, "trainer.val_check_interval": 2},
}
LEARNS = {"optim.lr": 0.02, "optim.schedule.warmup": 1}
"""With these a tiny run is better after 40 steps than a constant prediction."""
AXES = {"model.norm": ["layer", "rms"]}
METRIC = {"name": "val/loss", "mode": "min"}


def sweep_file(folder: Path, **changes: Any) -> Path:
    """The smallest sweep of tiny runs, with changes: None omits a key, ``overrides`` are added."""
    least = {"recipe": "translation/numbers", "axes": AXES, "seeds": [1, 2], "metric": METRIC}
    tree = {**least, "threads": 1, **changes}
    tree["overrides"] = {**TINY, **(changes.get("overrides") or {})}
    given = {key: value for key, value in tree.items() if value is not None}
    path = folder / "tiny.yaml"
    path.write_text(yaml.safe_dump(given, sort_keys=False))
    return path


class Killed(BaseException):
    """A signal ends a training."""


class Ended:
    """The process of a training that has ended."""

    def __init__(self, code: int) -> None:
        self.sentinel, other = os.pipe()
        os.close(other)
        self.exitcode = code

    def join(self) -> None:
        os.close(self.sentinel)

    def kill(self) -> None: ...

    terminate = kill


class Trainings:
    """Takes the place of ``fit`` and its process, and lets chosen runs fail."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.trained: list[str] = []
        self.codes: dict[str, int] = {}
        """Exit codes of runs whose folder holds the key."""
        self.scores: dict[str, float | None] = {}
        """The loss, likewise."""
        self.losses: list[float] = []
        """``train/loss`` of each step, which holds dropout and label smoothing."""
        self.constant_loss: float | None = None
        self.seconds = 20.0
        """What each takes."""
        self.environment: Mapping[str, str] = {}
        """Of the last one."""
        patch.setattr(local, "start", self.start)

    def start(self, run: Run, words: Any, environment: Mapping[str, str], imports: Any) -> Ended:
        run.folder.mkdir(parents=True, exist_ok=True)
        self.environment = environment
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(local, "call", partial(self.fit, run))
            try:
                code = local.train(run, words)
            except Killed:
                code = self.code(run)
        return Ended(code)

    def code(self, run: Run) -> int:
        place = run.folder.as_posix()
        return next((code for key, code in self.codes.items() if key in place), 0)

    def fit(self, run: Run, words: Any) -> int:
        self.trained.append(run.name)
        code, place = self.code(run), run.folder.as_posix()
        loss = next((loss for key, loss in self.scores.items() if key in place), 1.0)
        known = {0: "completed", 75: "interrupted", 130: "interrupted"}
        ended = "running" if code < 0 else known.get(code, "failed: it broke")
        fit = {"ended": ended, "scores": {"val/loss": loss}, "constant_loss": self.constant_loss}
        fit |= {"test_sets": ["test"], "steps": 4, "seconds": self.seconds}
        fit["out_of_time"] = True
        lines = [f"{step},{value}" for step, value in enumerate(self.losses)]
        (run.folder / "metrics.csv").write_text("\n".join(["step,train/loss", *lines, ""]))
        write_summary(run.folder, "fit", fit)
        if code < 0:
            raise Killed
        if code == 0:
            scores = {"test/bleu": 1.0, "test/long/exact_match": 0.0}
            write_summary(run.folder, "test", {"ended": "completed", "scores": scores})
        return code
