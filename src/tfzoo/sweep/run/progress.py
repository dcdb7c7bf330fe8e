"""How far a sweep is and how long the rest takes: a line for each change of a run, and the cells of
a dry run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from statistics import fmean

from tfzoo.base.scores import format_score
from tfzoo.base.terminal import notify, relative_path
from tfzoo.runs.folder import read_summary
from tfzoo.sweep.plan.sweep_file import Plan
from tfzoo.sweep.run import tune
from tfzoo.sweep.run.state import OVER, Run, planned_runs, scores


class Progress:
    """Prints each change of a run, with the estimated time left."""

    def __init__(self, plan: Plan, runs: Sequence[Run], jobs: int) -> None:
        self.plan, self.runs, self.jobs = plan, runs, jobs
        self.statuses: dict[str, str] = {run.name: run.status for run in runs}
        self.times = [taken(run) for run in runs if self.statuses[run.name] == "completed"]

    def update(self, run: Run, status: str) -> None:
        """Print a line such as ``[3/27] norm=rms seed 1: completed, val/loss 0.512, 0:00:38, about
        0:12:00 left``.
        """
        if run.number >= 0:
            self.statuses[run.name] = status
        over = sum(one in OVER for one in self.statuses.values())
        line = f"[{over}/{len(self.runs)}] {run.name}: {status}"
        if status in ("diverged", "failed"):
            line += f": {run.outcome.reason}"
        if status == "completed":
            name = run.metrics[0]
            score = scores(run.folder).get(name)
            line += "" if score is None else f", {name} {format_score(name, score)}"
        if status == "completed" and run.number >= 0:
            self.times.append(taken(run))
            left = seconds_left(len(self.runs) - over, self.times, self.jobs)
            line += f", {clock(self.times[-1])}"
            line += f", about {clock(left)} left" if left else ""
        notify(line)


def preview(plan: Plan, folder: Path, jobs: int) -> Iterator[str]:
    """Lines: each cell with the numbers of its runs, refused cells with their reasons, the number
    of runs left, and the estimated time.
    """
    runs, count = planned_runs(plan, folder), len(plan.seeds)
    statuses = {run.number: run.status for run in runs}
    for index, cell in enumerate(plan.cells):
        numbers = range(index * count, index * count + count)
        done = sum(statuses.get(number) == "completed" for number in numbers)
        span = f"{numbers[0]}-{numbers[-1]}" if count > 1 else f"{numbers[0]}"
        what = f"refused: {cell.refused}" if cell.refused else f"{done} of {count} done"
        yield f"  {span:>9}  {cell.name}: {what}"
    refused = sum(bool(cell.refused) for cell in plan.cells)
    failed = sum(status == "failed" for status in statuses.values())
    firsts = [run for run in runs if run.seed == plan.seeds[0]]
    trials = [one for run in firsts for one in tune.trials(run, plan) if not one.outcome.is_over]
    left = [run for run in runs if statuses[run.number] not in OVER] + trials
    tuning = f", {len(trials)} of them to tune {plan.tune.key}" if plan.tune and trials else ""
    retry = f"; {failed} failed, repeated only with --retry failed" if failed else ""
    yield (
        f"{len(plan.cells) - refused} cells x {count} seeds in {relative_path(folder)}, "
        f"{refused} cells refused; {len(left)} runs left{tuning}{retry}"
    )
    times = [taken(run) for run in runs if statuses[run.number] == "completed"]
    total = seconds_left(len(left), times, jobs)
    if total is None:
        yield "no estimate of the time: no run is completed yet; run --cell 0 alone to get one"
    else:
        yield (
            f"about {clock(total)} with --jobs {jobs}: {clock(fmean(times))} a "
            f"run, the mean of {len(times)} completed runs"
        )


def seconds_left(left: int, completed: Sequence[float], jobs: int) -> float | None:
    """Seconds until as many runs are done, ``jobs`` at a time, each of which takes the mean of the
    completed ones; None if there are none.
    """
    return -(-left // jobs) * fmean(completed) if completed else None


def taken(run: Run) -> float:
    """Seconds that a training took."""
    return float(read_summary(run.folder).get("fit", {}).get("seconds", 0.0))


def clock(seconds: float) -> str:
    """``0:10:00``"""
    return str(timedelta(seconds=round(seconds)))
