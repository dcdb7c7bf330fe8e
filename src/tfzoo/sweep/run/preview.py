"""The cells of a sweep, what remains to be done, and how long that takes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from statistics import fmean

from tfzoo.base.terminal import relative_path
from tfzoo.runs.folder import read_summary
from tfzoo.sweep.plan.sweep_file import Plan
from tfzoo.sweep.run import state, tune
from tfzoo.sweep.run.state import Run


def preview(plan: Plan, folder: Path, jobs: int) -> Iterator[str]:
    """Lines: each cell with the numbers of its runs, refused cells with their reasons, the number
    of runs left, and the estimated time.
    """
    runs = state.planned_runs(plan, folder)
    statuses = {run.number: state.status(run) for run in runs}
    yield from cell_lines(plan, statuses)
    refused = sum(bool(cell.refused) for cell in plan.cells)
    trials = [
        trial
        for run in runs
        if run.seed == plan.seeds[0]
        for trial in tune.trials(run, plan)
        if not trial.outcome.is_over
    ]
    failed = sum(status == "failed" for status in statuses.values())
    left = [run for run in runs if statuses[run.number] not in state.OVER] + trials
    tuning = f", {len(trials)} of them to tune {plan.tune.key}" if plan.tune and trials else ""
    retry = f"; {failed} failed, repeated only with --retry failed" if failed else ""
    yield (
        f"{len(plan.cells) - refused} cells x {len(plan.seeds)} seeds in {relative_path(folder)}, "
        f"{refused} cells refused; {len(left)} runs left{tuning}{retry}"
    )
    completed = [run for run in runs if statuses[run.number] == "completed"]
    yield describe_time(completed, left, jobs)


def cell_lines(plan: Plan, statuses: dict[int, state.Status]) -> Iterator[str]:
    """A line per cell: the numbers of its runs, its name, and how many are done."""
    count = len(plan.seeds)
    for index, cell in enumerate(plan.cells):
        numbers = range(index * count, index * count + count)
        span = f"{numbers[0]}-{numbers[-1]}" if count > 1 else f"{numbers[0]}"
        done, failed = (
            sum(statuses.get(number) == wanted for number in numbers)
            for wanted in ("completed", "failed")
        )
        ran = f"{done} of {count} done" + (f", {failed} failed" if failed else "")
        yield f"  {span:>9}  {cell.name}: {f'refused: {cell.refused}' if cell.refused else ran}"


def seconds_left(
    left: Iterable[Run],
    completed: Iterable[tuple[Run, float]],
    jobs: int,
    elapsed: Mapping[str, float] | None = None,
) -> float | None:
    """Seconds until all of ``left`` are done, ``jobs`` at a time; None if no run is completed.

    A run takes the mean time of its cell's completed runs, or of all if its cell has none.
    ``elapsed`` are the seconds since the runs that are training have started, by name.
    """
    by_cell: dict[str, list[float]] = defaultdict(list)
    for run, seconds in completed:
        by_cell[run.cell.name].append(seconds)
    if not by_cell:
        return None
    mean = fmean(seconds for found in by_cell.values() for seconds in found)
    gone, each = elapsed or {}, [0.0]
    for run in left:
        found = by_cell.get(run.cell.name)
        each.append(max(0.0, (fmean(found) if found else mean) - gone.get(run.name, 0.0)))
    return max(sum(each) / jobs, *each)  # no run is faster for other processes being idle


def taken(folder: Path) -> float:
    """Seconds that a run took, start-up included; its training time, if the sweep was killed
    before it recorded them.
    """
    wall = state.wall_seconds(folder)
    return float(read_summary(folder).get("fit", {}).get("seconds", 0.0)) if wall is None else wall


def format_clock(seconds: float) -> str:
    """``0:10:00``"""
    return str(timedelta(seconds=round(seconds)))


def describe_time(completed: Sequence[Run], left: Sequence[Run], jobs: int) -> str:
    """The time that the remaining runs take, and where the number comes from."""
    times = [(run, taken(run.folder)) for run in completed]
    total = seconds_left(left, times, jobs)
    if total is None:
        return "no estimate of the time: no run is completed yet; run --cell 0 alone to get one"
    each = format_clock(fmean(seconds for _, seconds in times))
    return (
        f"about {format_clock(total)} with --jobs {jobs}: {each} a run, the mean of "
        f"{len(times)} completed runs, start-up included"
    )
