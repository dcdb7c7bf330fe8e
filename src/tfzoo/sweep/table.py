"""What a person sees of a sweep while it runs: a live table on a terminal, else a line for each
change.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from statistics import mean
from threading import Lock
from time import monotonic
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table as Rows
from rich.text import Text

from tfzoo.runs import summary
from tfzoo.sweep import state
from tfzoo.sweep.cell import tail
from tfzoo.sweep.plan import Plan
from tfzoo.sweep.state import Run
from tfzoo.terminal import format_number, notify


class Table:
    """Told of each change of a run, it shows what is done, what is running and since when, what
    failed and why, and the time left.
    """

    def __init__(self, plan: Plan, every: Sequence[Run], jobs: int) -> None:
        self.plan, self.every, self.jobs = plan, every, jobs
        self.statuses: dict[str, str] = {run.name: state.status(run) for run in every}
        self.seconds = {
            run.name: seconds(run.folder) for run in every if self.statuses[run.name] == "completed"
        }
        self.running: dict[str, tuple[Run, float]] = {}
        self.reasons: dict[str, str] = {}
        self.lock = Lock()
        self.live: Live | None = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            self.live = Live(
                get_renderable=self.draw,
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

    def told(self, run: Run, status: str) -> None:
        """A run changed: ``running``, ``completed``, ``failed`` or ``half``. May be called from any
        thread.
        """
        with self.lock:
            if status == "running":
                self.running[run.name] = run, monotonic()
            else:
                began = self.running.pop(run.name, (run, monotonic()))[1]
                if status == "completed" and run.number >= 0:
                    self.seconds[run.name] = monotonic() - began
                if status == "failed":
                    self.reasons[run.name] = str(state.failure(run.folder).get("reason"))
            if run.number >= 0:
                self.statuses[run.name] = status
            line = self.line(run, status)
        if self.live is None:
            notify(line)
        elif status == "failed":
            self.live.console.print(Text(line))

    def line(self, run: Run, status: str) -> str:
        """A change in a line: ``[3/24] norm=rms seed 1: completed, val/loss 0.512, 0:00:38``."""
        over = sum(one in ("completed", "failed") for one in self.statuses.values())
        text = f"[{over}/{len(self.every)}] {run.name}: {status}"
        if status == "failed":
            text += f": {self.reasons[run.name]}"
        elif status == "completed":
            score = state.scores(run.folder).get(self.plan.metric.name)
            text += "" if score is None else f", {self.plan.metric.name} {format_number(score)}"
            text += f", {clock(self.seconds[run.name])}" * (run.name in self.seconds)
            if left := self.left():
                text += f", about {clock(left)} left"
        return text

    def left(self) -> float:
        """Seconds until all is done, as far as what is done tells; 0 where nothing is."""
        waiting = sum(status not in ("completed", "failed") for status in self.statuses.values())
        jobs = min(max(self.jobs, len(self.running)), waiting)
        return mean(self.seconds.values()) * waiting / jobs if self.seconds and waiting else 0.0

    def draw(self) -> Group:
        """The live table."""
        with self.lock:
            count = {
                one: sum(status == one for status in self.statuses.values())
                for one in ("completed", "failed")
            }
            waiting = len(self.every) - sum(count.values()) - len(self.running)
            left = f", about {clock(self.left())} left" if self.left() else ""
            head = f"{count['completed']} done, {len(self.running)} running, {count['failed']} failed, {max(0, waiting)} to come{left}"
            rows = Rows(box=None, show_header=False, padding=(0, 2, 0, 0))
            for name, (run, began) in self.running.items():
                rows.add_row(Text(name), f"step {step(run.folder)}", clock(monotonic() - began))
            for name, reason in list(self.reasons.items())[-5:]:
                rows.add_row(
                    Text(name),
                    Text("failed", "red"),
                    Text(reason, overflow="ellipsis", no_wrap=True),
                )
        return Group(Text(head, "bold"), rows)


def step(folder: Path) -> str:
    """The last step that a run logged."""
    first = tail(folder / "metrics.csv").rstrip().rpartition("\n")[2].partition(",")[0]
    return first if first.isdigit() else "-"


def seconds(folder: Path) -> float:
    """That a run trained for."""
    return float(summary.read(folder).get("fit", {}).get("seconds", 0.0))


def clock(seconds: float) -> str:
    """``0:10:00``"""
    return str(timedelta(seconds=round(seconds)))
