"""The progress of a sweep: a live table on a terminal, otherwise one line per change."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from time import monotonic
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table as Rows
from rich.text import Text

from tfzoo.base.scores import format_score
from tfzoo.base.terminal import notify
from tfzoo.runs.logged import FILE as METRICS
from tfzoo.sweep.plan.sweep_file import Plan
from tfzoo.sweep.run import state
from tfzoo.sweep.run.execution import tail
from tfzoo.sweep.run.outcome import scores
from tfzoo.sweep.run.preview import format_clock, seconds_left, taken
from tfzoo.sweep.run.state import Run


class Table:
    """Shows what is done, what is running and since when, what failed and why, and the estimated
    time left. ``update`` is called at each change of a run.
    """

    def __init__(self, plan: Plan, runs: Sequence[Run], jobs: int) -> None:
        self.plan, self.runs, self.jobs = plan, runs, jobs
        self.statuses: dict[str, str] = {run.name: state.status(run) for run in runs}
        self.seconds = {
            run.name: taken(run.folder) for run in runs if self.statuses[run.name] == "completed"
        }
        self.running: dict[str, tuple[Run, float]] = {}
        self.reasons: dict[str, str] = {}
        self.lock = Lock()
        self.live: Live | None = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            self.live = Live(
                get_renderable=self.render,
                console=Console(stderr=True),
                refresh_per_second=1,
                transient=True,
            )
            self.live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.live is not None:
            self.live.stop()

    def update(self, run: Run, status: str) -> None:
        """Show that a run is now ``running``, ``completed``, ``failed`` or ``stopped``. Any thread
        may call it.
        """
        with self.lock:
            if status == "running":
                self.running[run.name] = run, monotonic()
            else:
                self.running.pop(run.name, None)
                if status == "completed" and run.number >= 0:
                    self.seconds[run.name] = taken(run.folder)
                if status in ("diverged", "failed"):
                    self.reasons[run.name] = f"{status}: {run.outcome.reason}"
            if run.number >= 0:
                self.statuses[run.name] = status
            line = self.line(run, status)
        if self.live is None:
            notify(line)
        elif status == "failed":
            self.live.console.print(Text(line))

    def line(self, run: Run, status: str) -> str:
        """One change: ``[3/24] norm=rms seed 1: completed, val/loss 0.512, 0:00:38``."""
        over = sum(one in state.OVER for one in self.statuses.values())
        text = f"[{over}/{len(self.runs)}] {run.name}: "
        if run.name in self.reasons:
            return text + self.reasons[run.name]
        text += status
        if status == "completed":
            name = self.plan.metric.name
            score = scores(run.folder).get(name)
            text += "" if score is None else f", {name} {format_score(name, score)}"
            if run.number >= 0:
                text += f", {format_clock(self.seconds[run.name])}"
            if left := self.left():
                text += f", about {format_clock(left)} left"
        return text

    def left(self) -> float:
        """Estimated seconds until all runs are done; 0 if none is completed yet."""
        waiting = [run for run in self.runs if self.statuses[run.name] not in state.OVER]
        jobs = max(1, min(max(self.jobs, len(self.running)), len(waiting)))
        elapsed = {name: monotonic() - began for name, (_, began) in self.running.items()}
        times = [(run, self.seconds[run.name]) for run in self.runs if run.name in self.seconds]
        return seconds_left(waiting, times, jobs, elapsed) or 0.0

    def render(self) -> Group:
        """The live table."""
        with self.lock:
            completed, diverged, failed = (
                sum(status == wanted for status in self.statuses.values()) for wanted in state.OVER
            )
            waiting = max(0, len(self.runs) - completed - diverged - failed - len(self.running))
            left = f", about {format_clock(self.left())} left" if self.left() else ""
            head = (
                f"{completed + diverged} done, {len(self.running)} running, {failed} failed, "
                f"{waiting} to come{left}"
            )
            rows = Rows(box=None, show_header=False, padding=(0, 2, 0, 0))
            for name, (run, began) in self.running.items():
                step = f"step {last_step(run.folder)}"
                rows.add_row(Text(name), step, format_clock(monotonic() - began))
            for name, reason in list(self.reasons.items())[-5:]:
                rows.add_row(
                    Text(name),
                    Text(reason, "red", overflow="ellipsis", no_wrap=True),
                )
        return Group(Text(head, "bold"), rows)


def last_step(folder: Path) -> str:
    """The last step that a run logged."""
    first = tail(folder / METRICS).rstrip().rpartition("\n")[2].partition(",")[0]
    return first if first.isdigit() else "-"
