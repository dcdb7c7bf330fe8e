"""What a sweep would do, and about how long that would take."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import mean

from tfzoo.sweep import state, tune
from tfzoo.sweep.plan import Plan
from tfzoo.sweep.table import clock, seconds
from tfzoo.terminal import relative_path


def preview(plan: Plan, folder: Path, jobs: int) -> Iterator[str]:
    """Lines: each cell with the numbers of its runs, the refused ones with their reasons, the
    count, the time.
    """
    count, every = len(plan.seeds), state.runs(plan, folder)
    statuses = {run.number: state.status(run) for run in every}
    done, failed = (
        {number for number, status in statuses.items() if status == wanted}
        for wanted in ("completed", "failed")
    )
    for place, cell in enumerate(plan.cells):
        numbers = range(place * count, place * count + count)
        span = f"{numbers[0]}-{numbers[-1]}" if count > 1 else f"{numbers[0]}"
        lost = sum(one in failed for one in numbers)
        ran = f"{sum(one in done for one in numbers)} of {count} done" + (
            f", {lost} failed" if lost else ""
        )
        said = f"refused: {cell.refused}" if cell.refused else ran
        yield f"  {span:>9}  {cell.name}: {said}"
    refused = sum(bool(cell.refused) for cell in plan.cells)
    trials = sum(
        not state.failure(one.folder) and not state.complete(one.folder)
        for one in trying(plan, folder)
    )
    left = len(every) - len(done) - len(failed) + trials
    again = f"; {len(failed)} failed, to be run again with --retry failed" if failed else ""
    tuned = f", {trials} of them to tune {plan.tune.key}" if plan.tune and trials else ""
    yield f"{len(plan.cells) - refused} cells x {count} seeds in {relative_path(folder)}, {refused} cells refused; {left} runs to come{tuned}{again}"
    known = [seconds(run.folder) for run in every if run.number in done]
    if known:
        yield f"about {clock(mean(known) * left / jobs)} with --jobs {jobs}: {clock(mean(known))} a run, as the {len(known)} done took"
    else:
        yield "no run is finished yet, so nobody knows how long one takes; run --cell 0 alone to learn it"


def trying(plan: Plan, folder: Path) -> list[state.Run]:
    """All trials of all cells."""
    first = plan.seeds[0]
    return [
        trial
        for run in state.runs(plan, folder)
        if run.seed == first
        for trial in tune.trials(run, plan)
    ]
