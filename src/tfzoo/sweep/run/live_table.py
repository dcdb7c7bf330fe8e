"""The progress of a sweep: live lines on a terminal, otherwise one line per change."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from time import monotonic

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, TaskID, TextColumn, TimeElapsedColumn

from tfzoo.base.scores import format_score
from tfzoo.base.terminal import notify
from tfzoo.sweep.plan.sweep_file import Plan
from tfzoo.sweep.run import state
from tfzoo.sweep.run.outcome import scores
from tfzoo.sweep.run.preview import format_clock, seconds_left, taken
from tfzoo.sweep.run.state import Run


class Table(Progress):
    """Shows what is running and since when, what is done, why runs failed, and the estimated time
    left. ``update_run`` is called at each change of a run.
    """

    def __init__(self, plan: Plan, runs: Sequence[Run], jobs: int) -> None:
        self.is_live = sys.stderr.isatty()
        super().__init__(
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
            disable=not self.is_live,
        )
        self.plan, self.runs, self.jobs = plan, runs, jobs
        self.statuses: dict[str, str] = {run.name: state.status(run) for run in runs}
        self.seconds = {
            run.name: taken(run.folder) for run in runs if self.statuses[run.name] == "completed"
        }
        self.running: dict[str, tuple[TaskID, float]] = {}
        self.head = self.add_task("")

    def update_run(self, run: Run, status: str) -> None:
        """Show that a run has another status."""
        if run.name in self.running:
            self.remove_task(self.running.pop(run.name)[0])
        if status == "running":
            self.running[run.name] = self.add_task(escape(run.name)), monotonic()
        if run.number >= 0:
            self.statuses[run.name] = status
            if status == "completed":
                self.seconds[run.name] = taken(run.folder)
        left = f", about {format_clock(self.left())} left" if self.left() else ""
        over = sum(one in state.OVER for one in self.statuses.values())
        place = f"[{over}/{len(self.runs)}] "
        self.update(self.head, description=escape(f"{place}{len(self.running)} running{left}"))
        line = f"{place}{run.name}: {self.describe(run, status)}"
        line += left * (status == "completed")
        if not self.is_live:
            notify(line)
        elif status in ("diverged", "failed"):
            self.console.print(escape(line))

    def describe(self, run: Run, status: str) -> str:
        """A status in words: ``completed, val/loss 0.512, 0:00:38``."""
        if status in ("diverged", "failed"):
            return f"{status}: {run.outcome.reason}"
        if status != "completed":
            return status
        name = self.plan.metric.name
        score = scores(run.folder).get(name)
        text = status if score is None else f"{status}, {name} {format_score(name, score)}"
        return text + (f", {format_clock(self.seconds[run.name])}" if run.number >= 0 else "")

    def left(self) -> float:
        """Estimated seconds until all runs are done; 0 if none is completed yet."""
        waiting = [run for run in self.runs if self.statuses[run.name] not in state.OVER]
        jobs = max(1, min(max(self.jobs, len(self.running)), len(waiting)))
        elapsed = {name: monotonic() - began for name, (_, began) in self.running.items()}
        times = [(run, self.seconds[run.name]) for run in self.runs if run.name in self.seconds]
        return seconds_left(waiting, times, jobs, elapsed) or 0.0
