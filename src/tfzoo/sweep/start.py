"""Start or continue a sweep: train what is missing, print how it ended, write the report."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path

from tfzoo.base.terminal import notify, print_result, relative_path
from tfzoo.runs.folder import RUNS, is_complete, read_summary, write_summary
from tfzoo.runs.lock import Held, holding
from tfzoo.sweep.plan.load import load
from tfzoo.sweep.plan.sweep_file import Plan
from tfzoo.sweep.report import write
from tfzoo.sweep.run import creation, execution, local, state, tune
from tfzoo.sweep.run.live_table import Table
from tfzoo.sweep.run.outcome import FAILED
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
    creation.create(made, path, stored_command(arguments))
    runs = state.planned_runs(made, path)
    if retry:
        forget_failures(made, runs)
    notify(f"sweep: {relative_path(path)}")
    for one in made.cells:
        if one.refused:
            notify(f"{one.name}: refused: {one.refused}")
    train: Callable[..., int] = import_module(f"tfzoo.sweep.run.{engine}").run
    if engine == "ray":
        train = partial(train, address=address)
    jobs = jobs or (1 if engine == "local" else None)
    with Table(made, runs, jobs or 1) as table:
        missing = [run for run in runs if table.statuses[run.name] not in state.OVER]
        code = train(made, path, missing, jobs, table.update_run) if missing else 0
    if code:
        notify(f"tfzoo: stopped by a signal. Continue with: {command(arguments)}")
        return code
    code = print_outcome(made, runs, arguments)
    if why := nothing_learnt(runs):
        notify(f"Nothing was learnt: {why}")
    for written in write([path]):
        print_result(relative_path(written))
    return 1 if why else code


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
    if not creation.is_created(made, where):
        made = load(file, trust=trust, seeds=seeds)
        creation.create(made, where, stored_command(arguments))
    chosen = made.cells[number // len(made.seeds)]
    runs = [one for one in state.planned_runs(made, where) if one.number == number]
    if not runs:
        print_result(f"{chosen.name}: refused: {chosen.refused}")
        return 0
    if retry:
        forget_failures(made, runs)
    code = local.run(made, where, runs, 1, lambda run, status: notify(f"{run.name}: {status}"))
    return code or print_outcome(made, runs, arguments)


def sweep_folder(made: Plan, path: str | None, seeds: Sequence[int]) -> Path:
    """The folder of a sweep: ``path``, or ``runs/`` and the name of the sweep file.

    Raises:
        BadRun: it has runs of other seeds than these, if some were given in place of the file's.
    """
    folder = Path(path or RUNS / made.file.stem).expanduser().absolute()
    if seeds:
        creation.check_seeds(made, folder)
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
                execution.clear(one.folder)
                continue
            (one.folder / FAILED).unlink(missing_ok=True)
            if fit := read_summary(one.folder).get("fit"):
                write_summary(one.folder, "fit", {**fit, "ended": "interrupted"})


def print_outcome(made: Plan, runs: list[Run], arguments: list[str]) -> int:
    """Print how many runs are completed and why others failed or diverged; returns the exit code. A
    run that diverged is a result.
    """
    statuses: list[str] = [state.status(run) for run in runs]
    count = {one: statuses.count(one) for one in state.OVER}
    unfinished = len(runs) - sum(count.values())
    refused = sum(bool(one.refused) for one in made.cells)
    others = f", {count['diverged']} diverged" if count["diverged"] else ""
    print_result(
        f"{count['completed']} of {len(runs)} runs completed, {count['failed']} failed{others}; "
        f"{refused} of {len(made.cells)} cells refused"
    )
    for run in runs:
        if (found := run.outcome).reason:
            print_result(
                f"  {run.name}: {found.state}: {found.reason} ({relative_path(run.folder)})"
            )
    if count["failed"]:
        notify(f"To repeat them: {command(arguments, '--retry failed')}")
    if unfinished:
        notify(
            f"{unfinished} not finished: stopped, or another process is training them. "
            f"Continue with: {command(arguments)}"
        )
    return 1 if count["failed"] or unfinished else 0


def nothing_learnt(runs: Sequence[Run]) -> str:
    """Why a sweep whose runs are over has no answer at all; ``""`` if it may have one."""
    found = {run.outcome.state for run in runs}
    if not found:
        return "every cell is refused"
    if found == {"diverged"}:
        return "every run diverged: train for more steps, or with a lower learning rate"
    return "no run is completed" if found <= {"diverged", "failed"} else ""


def command(arguments: list[str], more: str = "") -> str:
    """The command that continues a sweep."""
    rest = [
        word
        for index, word in enumerate(arguments)
        if word not in ("--retry", "--retry=failed") and arguments[index - 1 : index] != ["--retry"]
    ]
    return " ".join([shlex.join(["tfzoo", "sweep", *rest]), more]).strip()


def stored_command(arguments: list[str]) -> str:
    """The command as the folder keeps it: nothing that is stored asks for ``--trust``."""
    return shlex.join(["tfzoo", "sweep", *(word for word in arguments if word != "--trust")])
