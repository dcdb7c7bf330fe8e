"""The cells of a sweep, what remains to be done, and an estimate of the time it takes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tfzoo.base.terminal import relative_path
from tfzoo.runs.folder import is_complete
from tfzoo.sweep import estimate, state, tune
from tfzoo.sweep.plan import Plan
from tfzoo.sweep.state import Run


def preview(plan: Plan, folder: Path, jobs: int) -> Iterator[str]:
    """Lines: each cell with the numbers of its runs, refused cells with their reasons, the number
    of runs left, and the estimated time.
    """
    runs = state.planned_runs(plan, folder)
    statuses = {run.number: state.status(run) for run in runs}
    yield from cell_lines(plan, statuses)
    refused = sum(bool(cell.refused) for cell in plan.cells)
    trials = [
        one
        for one in all_trials(plan, folder)
        if not state.failure(one.folder) and not is_complete(one.folder)
    ]
    failed = sum(status == "failed" for status in statuses.values())
    pruned = sum(status == "pruned" for status in statuses.values())
    left = [run for run in runs if statuses[run.number] not in state.OVER] + trials
    tuning = f", {len(trials)} of them to tune {plan.tune.key}" if plan.tune and trials else ""
    retry = f"; {failed} failed, repeated only with --retry failed" if failed else ""
    stopped = f"; {pruned} pruned" if pruned else ""
    yield (
        f"{len(plan.cells) - refused} cells x {len(plan.seeds)} seeds in {relative_path(folder)}, "
        f"{refused} cells refused; {len(left)} runs left{tuning}{stopped}{retry}"
    )
    completed = [run for run in runs if statuses[run.number] == "completed"]
    yield estimate.describe(completed, left, jobs, plan.prune is not None)


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
        ran += ", pruned" * any(statuses.get(number) == "pruned" for number in numbers)
        yield f"  {span:>9}  {cell.name}: {f'refused: {cell.refused}' if cell.refused else ran}"


def all_trials(plan: Plan, folder: Path) -> list[Run]:
    """The tuning trials of all cells."""
    first = plan.seeds[0]
    return [
        trial
        for run in state.planned_runs(plan, folder)
        if run.seed == first
        for trial in tune.trials(run, plan)
    ]
