"""Start or continue a sweep: train what is missing, say how far it is and how long the rest takes,
print the answer, write the report.
"""

import json
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from statistics import fmean
from typing import Any

from tfzoo.base.files import replace_text
from tfzoo.base.terminal import notify, print_result, relative_path
from tfzoo.base.yaml_files import as_yaml
from tfzoo.errors import BadRecipe, BadRun
from tfzoo.runs.folder import (
    RUNS,
    Held,
    holding,
    is_complete,
    make,
    read_config,
    read_summary,
    write_summary,
)
from tfzoo.sweep.judge.effects import listed
from tfzoo.sweep.judge.sequential import FIRST
from tfzoo.sweep.plan.sweep_file import Plan
from tfzoo.sweep.report.files import publish
from tfzoo.sweep.report.results import design, gather
from tfzoo.sweep.run import local, state, tune
from tfzoo.sweep.run.state import OVER, Run, planned_runs


def start(
    plan: Plan, folder: Path, arguments: Sequence[str], engine: str, jobs: int | None, retry: bool
) -> int:
    """Train all runs of a sweep that are missing, then report.

    Args:
        arguments: of ``tfzoo sweep``, for messages that name the command.
        engine: ``local``, ``ray`` or ``slurm``.
        jobs: runs at a time; None is 1 on this machine, as many as there is room for on a cluster.
        retry: repeat failed runs.

    Returns 0 if every cell has an answer, 1 if a run failed or nothing was learnt, the exit code of
    a signal otherwise.
    """
    for line in warnings(plan, folder):
        notify(line)
    create(plan, folder, command(arguments))
    runs = planned_runs(plan, folder)
    if retry:
        forget_failures(plan, runs)
    notify(f"sweep: {relative_path(folder)}")
    if refused := sum(bool(one.refused) for one in plan.cells):
        notify(f"{refused} of {len(plan.cells)} cells refused: the report says why")
    train: Any = import_module(f"tfzoo.sweep.run.{engine}").run
    jobs = jobs or (1 if engine == "local" else None)
    progress = Progress(runs, jobs or len(runs))
    missing = [run for run in runs if progress.statuses[run.name] not in OVER]
    code: int = train(plan, folder, missing, jobs, progress.update) if missing else 0
    if code:
        notify(f"tfzoo: stopped by a signal. Continue with: {command(arguments)}")
        return code
    results = gather(folder)
    publish(results)
    statuses = {row["status"] for row in results.rows}
    return int("completed" not in statuses or bool(statuses & {"failed", "missing"}))


def warnings(plan: Plan, folder: Path) -> Iterator[str]:
    """A line where seeds are too few for a verdict, and one on what more seeds cost a sweep that
    was judged before, unless it declared them.
    """
    if len(plan.seeds) < FIRST:
        yield f"{listed(plan.seeds)}: estimates alone, a verdict needs {FIRST} seeds"
    sample = design(folder, plan)
    if sample.earlier:
        yield (
            f"{relative_path(folder)} {sample.grown(len(plan.seeds))}, which no looks in its file "
            "had declared: the report will have estimates and no verdicts. A repeat keeps them: "
            "other --seeds, in another folder (--run)"
        )


def start_one(plan: Plan, folder: Path, arguments: Sequence[str], number: int, retry: bool) -> int:
    """Train one run, by the number that ``--dry-run`` prints. For schedulers that start each run
    themselves; ``tfzoo report`` writes the report.
    """
    count = len(plan.cells) * len(plan.seeds)
    if not 0 <= number < count:
        raise BadRecipe(f"{plan.file}: no run {number}; it has {count}, from 0 to {count - 1}")
    made = (folder / state.CELLS).is_file()  # which is written last
    if not made or (folder / state.SWEEP).read_text("utf-8") != as_yaml(plan.to_dict()):
        create(plan, folder, command(arguments))
    cell = plan.cells[number // len(plan.seeds)]
    if cell.refused:
        print_result(f"{cell.name}: refused: {cell.refused}")
        return 0
    runs = [one for one in planned_runs(plan, folder) if one.number == number]
    if retry:
        forget_failures(plan, runs)
    code = local.run(plan, folder, runs, 1, Progress(runs, 1).update)
    return code or int(runs[0].status not in state.ENDED)


def create(plan: Plan, folder: Path, command: str) -> None:
    """Create the sweep's folder, or update its sweep file and list of cells."""
    make(folder)
    check_folder(plan, folder)
    replace_text(folder / state.SWEEP, as_yaml(plan.to_dict()))
    cells = {"command": command, "cells": {cell.name: cell.refused for cell in plan.cells}}
    replace_text(folder / state.CELLS, json.dumps(cells, indent=1, ensure_ascii=False) + "\n")


def check_folder(plan: Plan, folder: Path) -> None:
    """Check that a folder, which need not be there, has no other thing and no runs or values that
    were chosen with other settings.
    """
    if folder.is_dir() and any(folder.iterdir()) and not (folder / state.SWEEP).is_file():
        raise BadRun(f"{folder} is not empty and holds no sweep. Name another with --run")
    for run in planned_runs(plan, folder):
        tune.tuned(run, plan)
        for one in (run, *tune.trials(run, plan)):
            check_unchanged(one, plan)


def check_unchanged(run: Run, plan: Plan) -> None:
    """Check that a run in the folder has the settings that the sweep file asks for now."""
    before = read_config(run.folder)
    if not before:
        return
    recipes = run.cell.recipes
    wanted = {**recipes.get(run.tuned, next(iter(recipes.values()))), "seed": run.seed}
    found = state.differences(before, wanted, plan.tune.key if plan.tune and not run.tuned else "")
    if found:
        listed = "; ".join(f"{name} was {old}, is {new}" for name, old, new in found[:3])
        raise BadRun(
            f"{run.folder} was run with other settings: {listed}. "
            "Name another folder with --run, or remove that run"
        )


def sweep_folder(plan: Plan, path: str | None, seeds: Sequence[int]) -> Path:
    """The folder of a sweep: ``path``, or ``runs/`` and the name of the sweep file."""
    folder = Path(path or RUNS / plan.file.stem).expanduser().absolute()
    runs = [path.name for cell in plan.cells for path in (folder / cell.name).glob("seed-*")]
    found = {name.removeprefix("seed-") for name in runs}
    left_out = {int(seed) for seed in found if seed.isdecimal()} - {*plan.seeds}
    if seeds and left_out:
        raise BadRun(
            f"{folder} has runs of {listed(sorted(left_out))}, which --seeds leaves out: --seeds "
            f"{','.join(map(str, sorted({*plan.seeds, *left_out})))} goes on with them; a repeat "
            "is in another folder (--run)"
        )
    return folder


def forget_failures(plan: Plan, runs: list[Run]) -> None:
    """Let failed runs go on: one resumes from its checkpoint; one that trained to the end starts
    again. A run that is no better than untrained is a result, which a repeat would give again.
    """
    trials = [trial for run in runs for trial in tune.trials(run, plan)]
    for one in [one for one in (*trials, *runs) if one.outcome.state == "failed"]:
        with suppress(Held), holding(one.folder):
            (one.folder / state.FAILED).unlink(missing_ok=True)
            if is_complete(one.folder):
                local.clear(one.folder)
            elif fit := read_summary(one.folder).get("fit"):
                write_summary(one.folder, "fit", {**fit, "ended": "interrupted"})


def command(arguments: Sequence[str]) -> str:
    """The command that continues a sweep, without what each start gives anew."""
    text = shlex.join(["tfzoo", "sweep", *arguments])
    for option in (" --trust", " --retry failed", " --retry=failed"):
        text = text.replace(option, "")
    return text


class Progress:
    """Prints each change of a run, with the estimated time left."""

    def __init__(self, runs: Sequence[Run], jobs: int) -> None:
        self.runs, self.jobs = runs, jobs
        self.statuses: dict[str, str] = {run.name: run.status for run in runs}
        self.times = [taken(run) for run in runs if self.statuses[run.name] in state.ENDED]

    def update(self, run: Run, status: str) -> None:
        """Print a line such as ``[3/27] norm=rms seed 1: completed, val/loss 0.512, 0:00:38, about
        0:12:00 left``.
        """
        if run.number >= 0:
            self.statuses[run.name] = status
        over = sum(one in OVER for one in self.statuses.values())
        line = f"[{over}/{len(self.runs)}] {run.name}: {status}"
        if status in OVER and (why := run.outcome.reason):
            line += f": {why}"
        if status == "completed":
            name = run.metrics[0]
            score = run.scores.get(name)
            line += "" if score is None else f", {name} {score:.4g}"
            self.times.append(taken(run))
            left = seconds_left(len(self.runs) - over, self.times, self.jobs)
            line += f", {clock(self.times[-1])}"
            line += f", about {clock(left)} left" if left else ""
        notify(line)


def preview(plan: Plan, folder: Path, jobs: int, retry: bool) -> Iterator[str]:
    """Lines: each cell with the numbers of its runs, each reason of refusals with the number of its
    cells, the number of runs left, and the estimated time.
    """
    yield from warnings(plan, folder)
    runs, count = planned_runs(plan, folder), len(plan.seeds)
    statuses = {run.number: run.status for run in runs}
    for index, cell in enumerate(plan.cells):
        numbers = range(index * count, index * count + count)
        done = sum(statuses.get(number) in state.ENDED for number in numbers)
        span = f"{numbers[0]}-{numbers[-1]}" if count > 1 else f"{numbers[0]}"
        failed = sum(statuses.get(number) == "failed" for number in numbers)
        what = "refused" if cell.refused else f"{done} of {count} done"
        what += f", {failed} failed (--retry failed)" * bool(failed)
        yield f"  {span:>9}  {cell.name}: {what}"
    refused = Counter(cell.refused for cell in plan.cells if cell.refused)
    for why, cells in refused.items():
        yield f"{cells} cell{'s' * (cells > 1)} refused: {why}"
    firsts = [run for run in runs if run.seed == plan.seeds[0]]
    trials = [one for run in firsts for one in tune.trials(run, plan) if not one.outcome.is_over]
    over = state.ENDED if retry else OVER
    left = [run for run in runs if statuses[run.number] not in over] + trials
    yield (
        f"{len(plan.cells) - refused.total()} cells x {count} seeds in {relative_path(folder)}: "
        f"{len(left)} runs left"
    )
    times = [taken(run) for run in runs if statuses[run.number] in state.ENDED]
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
