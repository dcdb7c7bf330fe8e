"""A sweep in whose tasks a stand-in takes the place of a run's training."""

import json
import os
import signal
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.waiting import soon
from tfzoo.sweep.plan.sweep_file import Plan, parse
from tfzoo.sweep.run import cluster, state
from tfzoo.sweep.run.state import SWEEP, Run

CELL = """
    import json, os, pathlib, signal, sys, time
    from filelock import FileLock, Timeout
    folder, run, seconds = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), float(sys.argv[3])
    run.mkdir(parents=True, exist_ok=True)
    held = FileLock(run / "lock")
    try:
        held.acquire(timeout=0.2)
    except Timeout:
        sys.exit("held")
    if (run / "summary.json").is_file():
        sys.exit(0)
    def said(what):
        (folder / "trained.txt").open("a").write(f"{what} {run.parent.name} {os.getpid()}\\n")
    def stop(*_):
        said("stop")
        os._exit(75)
    signal.signal(signal.SIGTERM, stop)
    said("begin")
    if "broken" in run.parent.name:
        sys.exit("tfzoo: it broke")
    time.sleep(seconds)
    said("end")
    (run / "config.yaml").write_text("data: {}\\n")
    fit = {"ended": "completed", "scores": {"val/loss": 1.0}}
    (run / "summary.json").write_text(json.dumps({"fit": fit}))
"""


class Sweep:
    """The folder of a sweep with one cell a name, and what its runs did."""

    def __init__(
        self, folder: Path, names: list[str], seconds: float, patch: pytest.MonkeyPatch
    ) -> None:
        self.folder = folder / "tiny"
        self.folder.mkdir()
        tree = {
            "recipe": "translation/numbers",
            "axes": {"model.norm": names},
            "seeds": [1],
            "metric": {"name": "val/loss", "mode": "min"},
        }
        self.plan: Plan = parse(folder / "tiny.yaml", tree)
        (self.folder / SWEEP).write_text(json.dumps(tree))
        self.runs = state.planned_runs(self.plan, self.folder)
        script = folder / "cell.py"
        script.write_text(textwrap.dedent(CELL))
        patch.setattr(
            cluster.Cluster,
            "job",
            lambda self, run: cluster.Job(
                self.folder, [str(script), str(self.folder), str(run.folder), str(seconds)]
            ),
        )
        self.heard: list[tuple[str, str]] = []

    def update(self, run: Run, status: str) -> None:
        self.heard.append((run.cell.labels["model.norm"], status))

    def did(self, what: str) -> list[str]:
        """The cells that began, were stopped or ended, in that order."""
        path = self.folder / "trained.txt"
        lines = path.read_text().splitlines() if path.is_file() else []
        return [line.split()[1].removeprefix("norm=") for line in lines if line.startswith(what)]

    def interrupt_when(self, true: Callable[[], object]) -> None:
        """Press Ctrl-C, once something is true."""

        def wait() -> None:
            soon(true, 600)
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=wait, daemon=True).start()

    def statuses(self) -> list[str]:
        return [run.status for run in self.runs]
