"""Start or continue a sweep: train what is missing, print the answer, write the report."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from tfzoo.base.terminal import notify, print_result, relative_path
from tfzoo.runs.folder import RUNS, is_complete, read_summary, write_summary
from tfzoo.runs.lock import Held, holding
from tfzoo.sweep.plan.load import load
from tfzoo.sweep.plan.sweep_file import Plan
from tfzoo.sweep.report.files import publish
from tfzoo.sweep.report.results import gather
from tfzoo.sweep.run import local, state, tune
from tfzoo.sweep.run.progress import Progress
from tfzoo.sweep.run.state import Run


def start(
    made: Plan,
    path: Path,
    arguments: list[str],
    *,
    engine: str = "local",
    jobs: int | None = None,
    address: str | None = None,
    retry: bool = False,
) -> int:
    """Train all runs of a sweep that are missing, then report.

    Args:
        arguments: of ``tfzoo sweep``, for messages that name the command.
        engine: ``local``, ``ray`` or ``slurm``.
        jobs: runs at a time; None is 1 on this machine, as many as there is room for on a cluster.
        address: of the Ray cluster.
        retry: repeat failed runs.

    Returns 0 if every cell has an answer, 1 if a run failed or nothing was learnt, the exit code of
    a signal otherwise.
    """
    state.create(made, path, command(arguments))
    runs = state.planned_runs(made, path)
    if retry:
        forget_failures(made, runs)
    notify(f"sweep: {relative_path(path)}")
    for one in made.cells:
        if one.refused:
            notify(f"{one.name}: refused: {one.refused}")
    train: Any = import_module(f"tfzoo.sweep.run.{engine}").run
    if engine == "ray":
        train = partial(train, address=address)
    jobs = jobs or (1 if engine == "local" else None)
    progress = Progress(made, runs, jobs or len(runs))
    missing = [run for run in runs if progress.statuses[run.name] not in state.OVER]
    code: int = train(made, path, missing, jobs, progress.update) if missing else 0
    if code:
        notify(f"tfzoo: stopped by a signal. Continue with: {command(arguments)}")
        return code
    results = gather(path)
    publish(results)
    statuses = {row["status"] for row in results.rows}
    return int("completed" not in statuses or bool(statuses & {"failed", "missing"}))


def start_one(
    file: str,
    path: str | None,
    number: int,
    arguments: list[str],
    *,
    retry: bool = False,
    trust: bool = False,
    seeds: Sequence[int] = (),
) -> int:
    """Train one run, by the number that ``--dry-run`` prints. For schedulers that start each run
    themselves; ``tfzoo report`` writes the report.
    """
    made = load(file, number, trust, seeds)
    where = sweep_folder(made, path, seeds)
    if not state.is_created(made, where):
        made = load(file, trust=trust, seeds=seeds)
        state.create(made, where, command(arguments))
    chosen = made.cells[number // len(made.seeds)]
    if chosen.refused:
        print_result(f"{chosen.name}: refused: {chosen.refused}")
        return 0
    runs = [one for one in state.planned_runs(made, where) if one.number == number]
    if retry:
        forget_failures(made, runs)
    progress = Progress(made, runs, 1)
    code = local.run(made, where, runs, 1, progress.update)
    return code or int(runs[0].status not in ("completed", "diverged"))


def sweep_folder(made: Plan, path: str | None, seeds: Sequence[int]) -> Path:
    """The folder of a sweep: ``path``, or ``runs/`` and the name of the sweep file.

    Raises:
        BadRun: it has runs of other seeds than these, if some were given in place of the file's.
    """
    folder = Path(path or RUNS / made.file.stem).expanduser().absolute()
    if seeds:
        state.check_seeds(made, folder)
    return folder


def forget_failures(made: Plan, runs: list[Run]) -> None:
    """Let failed runs go on: one resumes from its checkpoint; one that trained to the end starts
    again. A run that diverged is a result, which a repeat would give again.
    """
    trials = [trial for run in runs for trial in tune.trials(run, made)]
    for one in (*trials, *runs):
        if one.outcome.state != "failed":
            continue
        with suppress(Held), holding(one.folder):
            if is_complete(one.folder):
                local.clear(one.folder)
                continue
            (one.folder / state.FAILED).unlink(missing_ok=True)
            if fit := read_summary(one.folder).get("fit"):
                write_summary(one.folder, "fit", {**fit, "ended": "interrupted"})


def command(arguments: list[str]) -> str:
    """The command that continues a sweep, without what each start gives anew."""
    text = shlex.join(["tfzoo", "sweep", *arguments])
    for option in (" --trust", " --retry failed", " --retry=failed"):
        text = text.replace(option, "")
    return text
