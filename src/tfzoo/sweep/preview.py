"""The cells of a sweep, what remains to be done, and an estimate of the time it takes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

from tfzoo.sweep import state, tune
from tfzoo.sweep.plan import Plan
from tfzoo.sweep.state import Run
from tfzoo.sweep.table import format_clock
from tfzoo.terminal import relative_path


def preview(plan: Plan, folder: Path, jobs: int) -> Iterator[str]:
    """Lines: each cell with the numbers of its runs, refused cells with their reasons, the number
    of runs left, and the estimated time.
    """
    runs = state.planned_runs(plan, folder)
    statuses = {run.number: state.status(run) for run in runs}
    yield from cell_lines(plan, statuses)
    refused = sum(bool(cell.refused) for cell in plan.cells)
    trials = sum(
        not state.failure(one.folder) and not state.is_complete(one.folder)
        for one in all_trials(plan, folder)
    )
    failed = sum(status == "failed" for status in statuses.values())
    left = sum(status not in ("completed", "failed") for status in statuses.values()) + trials
    tuning = f", {trials} of them to tune {plan.tune.key}" if plan.tune and trials else ""
    retry = f"; {failed} failed, repeated only with --retry failed" if failed else ""
    yield (
        f"{len(plan.cells) - refused} cells x {len(plan.seeds)} seeds in {relative_path(folder)}, "
        f"{refused} cells refused; {left} runs left{tuning}{retry}"
    )
    yield estimate([run for run in runs if statuses[run.number] == "completed"], left, jobs)


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


def estimate(completed: list[Run], left: int, jobs: int) -> str:
    """The time that the remaining runs take, and where the number comes from."""
    if not completed:
        return "no estimate of the time: no run is completed yet; run --cell 0 alone to get one"
    wall = [time for run in completed if (time := state.wall_seconds(run.folder)) is not None]
    seconds = fmean(wall or [state.training_seconds(run.folder) for run in completed])
    source = (
        f"the mean of {len(wall)} completed runs, start-up included"
        if wall
        else f"the mean training time of {len(completed)} completed runs; start-up, which tfzoo "
        "0.1 did not record, comes on top"
    )
    total = format_clock(seconds * left / jobs)
    return f"about {total} with --jobs {jobs}: {format_clock(seconds)} a run, {source}"


def all_trials(plan: Plan, folder: Path) -> list[Run]:
    """The tuning trials of all cells."""
    first = plan.seeds[0]
    return [
        trial
        for run in state.planned_runs(plan, folder)
        if run.seed == first
        for trial in tune.trials(run, plan)
    ]
