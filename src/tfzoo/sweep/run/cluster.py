"""The runs of a sweep as jobs of a cluster, each ``tfzoo sweep FILE --run FOLDER --cell I`` on some
machine that sees the folder.
"""

import ctypes
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from tfzoo.base.terminal import notify
from tfzoo.errors import BadRun
from tfzoo.sweep.plan.sweep_file import Plan
from tfzoo.sweep.run.local import Stop
from tfzoo.sweep.run.state import OVER, STOPPED, SWEEP, Notify, Run, Status, record_failure

CHECKPOINT_SECONDS = 60.0
"""Seconds that a stopped run has for its last checkpoint."""
POLL_SECONDS = 2.0
"""Seconds between two questions to a cluster."""
UNSEEN, LOST, CANCELLED = 3, 1001, 1002
"""Exit codes of a job whose machine does not see the folder, was lost, or that was cancelled."""


@dataclass(frozen=True)
class Ended:
    """How a job ended: the exit code, the machine, and the last line that it printed."""

    code: int
    host: str = ""
    message: str = ""


class Job:
    """A run that can be sent to another machine. If the process that runs it dies, the training is
    killed; if it is interrupted, the training ends with a checkpoint.
    """

    def __init__(self, folder: Path, arguments: list[str]) -> None:
        self.folder, self.arguments = folder, arguments
        self.child: subprocess.Popen[bytes] | None = None

    def __call__(self) -> Ended:
        host = socket.gethostname()
        # A machine that joined later may not see the folder, and would create a new one.
        if not (self.folder / SWEEP).is_file():
            return Ended(UNSEEN, host)
        with TemporaryFile() as output:
            self.child = subprocess.Popen(
                [sys.executable, *self.arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                process_group=0,
                preexec_fn=die_with_parent,
            )
            try:
                # Not wait(): a signal handler that waits too would block on it.
                while self.child.poll() is None:
                    time.sleep(0.1)
            except BaseException:
                self.stop()
                raise
            output.seek(0)
            printed = output.read().decode("utf-8", "replace").strip()
        last = printed.rpartition("\n")[2].removeprefix("tfzoo: ")
        return Ended(self.child.returncode, host, last or "no output")

    def stop(self) -> None:
        """End the run with a checkpoint."""
        if self.child is None:
            return
        self.child.terminate()
        end = time.monotonic() + CHECKPOINT_SECONDS
        while self.child.poll() is None and time.monotonic() < end:
            time.sleep(0.1)

    def checkpoint(self) -> Any:
        """Called by submitit when the job's time is over or it is preempted: submit it again."""
        self.stop()
        return import_module("submitit").helpers.DelayedSubmission(Job(self.folder, self.arguments))


def die_with_parent() -> None:
    """Let Linux kill this process when the thread that started it ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def run_job(job: Job) -> Ended:
    """The function that Ray calls remotely. It lies in a module, which Ray imports on the
    remote machine.
    """
    return job()


def gpus_per_run(plan: Plan) -> int:
    """GPUs that a run requests: ``devices``, or 0 if any cell trains on the CPU."""
    recipes = [recipe for cell in plan.cells for recipe in cell.recipes.values()]
    on_cpu = any(recipe["trainer"].get("accelerator") == "cpu" for recipe in recipes)
    return 0 if on_cpu else plan.devices or 0


class Cluster:
    """The jobs that are queued or running. A subclass submits them, and knows how they ended."""

    def __init__(self, plan: Plan, folder: Path, on_change: Notify) -> None:
        self.folder, self.on_change, self.trust = folder, on_change, plan.trust
        self.waiting: dict[int, tuple[Run, Any]] = {}
        """Each run by its number, with its job."""

    def submit(self, runs: Sequence[Run]) -> None:
        """Make a job of each run, and put both into ``waiting``."""
        raise NotImplementedError

    def ended(self, run: Run, job: Any) -> Ended | None:
        """How a job ended; None if it is queued or running."""
        raise NotImplementedError

    def job(self, run: Run) -> Job:
        """What is sent to a machine. The sweep file is the folder's copy, which every machine
        sees.
        """
        words = ["-m", "tfzoo", "sweep", str(self.folder / SWEEP), "--run", str(self.folder)]
        words += ["--cell", str(run.number), *(["--trust"] if self.trust else [])]
        return Job(self.folder, words)

    def finish(self, runs: Sequence[Run], most: int) -> int:
        """Complete all runs, at most ``most`` at a time; returns the exit code of the signal that
        interrupted the waiting, else 0.
        """
        queue, seen = list(runs), set[int]()
        with Stop() as stop:
            while (queue or self.waiting) and not stop.code:
                if queue and (room := most - len(self.waiting)) > 0:
                    self.submit(queue[:room])
                    del queue[:room]
                time.sleep(POLL_SECONDS)
                for number, (run, job) in [*self.waiting.items()]:
                    if (found := run.status) == "running" and number not in seen:
                        seen.add(number)
                        self.on_change(run, found)
                    ended = self.ended(run, job)
                    if ended is None and found not in OVER:
                        continue
                    del self.waiting[number]
                    settled = self.settle(run, ended)
                    self.on_change(run, settled or run.status)
                    if settled is None:
                        seen.discard(number)
                        queue.append(run)
        return stop.code

    def settle(self, run: Run, ended: Ended | None) -> Status | None:
        """The final status of a run, or None if it has to run again.

        It runs again if its machine was lost or shuts down, or if another process still holds it.
        """
        if ended and ended.code == UNSEEN:
            raise BadRun(
                f"the machine {ended.host} does not see {run.folder}: name a folder that all "
                "machines share with --run"
            )
        found = run.status
        if ended is None or found in OVER:
            return found
        if ended.code == CANCELLED:
            notify(f"{run.name}: its job was cancelled")
            return found
        if ended.code == LOST:
            notify(f"{run.name}: its machine was lost; it runs again on another")
        if ended.code in (LOST, *STOPPED) or found == "running":
            return None
        reason = f"on {ended.host}: {ended.message} (exit code {ended.code})"
        record_failure(run.folder, reason)
        return "failed"
