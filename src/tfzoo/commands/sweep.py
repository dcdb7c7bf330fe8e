"""tfzoo sweep FILE: run and report an ablation."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfzoo.commands.words import Words
from tfzoo.errors import TfzooError
from tfzoo.runs.folder import RUNS
from tfzoo.terminal import notify, print_error, print_result, relative_path

if TYPE_CHECKING:
    from tfzoo.sweep.plan import Plan
    from tfzoo.sweep.state import Run

ENGINES = ("local", "ray", "slurm")


def run(args: list[str]) -> int:
    """Run what is missing of a sweep, and report. 0 where all is completed or refused, 1 where a
    run failed, 75 or 130 when stopped.
    """
    given = words().read(args)
    if given is None:
        return 0
    if given.jobs is not None and given.jobs < 1:
        raise TfzooError(f"--jobs {given.jobs}: at least 1")
    if given.address and given.engine != "ray":
        raise TfzooError("--address is that of a Ray cluster: with --engine ray")
    if given.cell is not None and (
        given.dry_run or given.export or given.jobs or given.engine != "local"
    ):
        raise TfzooError(
            "--cell runs one here and now: without --dry-run, --export, --jobs and --engine"
        )
    from tfzoo.sweep.plan import load

    if given.cell is not None:
        return alone(given, args)
    plan = load(given.file)
    folder = Path(given.run or RUNS / plan.file.stem).expanduser().absolute()
    if given.export:
        print_result(import_module("tfzoo.sweep.wandb").export(plan, folder).rstrip())
        return 0
    if given.dry_run:
        from tfzoo.sweep.preview import preview

        print_result("\n".join(preview(plan, folder, given.jobs or 1)))
        return 0
    return sweep(plan, folder, given, args)


def words() -> Words:
    """What the command takes."""
    words = Words(
        "sweep",
        "Swap parts of a recipe, run everything, tell which swap mattered. The same command again does what is missing.",
    )
    words.add_argument(
        "file",
        metavar="FILE",
        help="a packaged sweep (ablations/norm) or the path of a YAML file: see docs/sweeps.md",
    )
    words.add_argument(
        "--run", metavar="FOLDER", help="where all runs lie; default runs/<the file's name>"
    )
    words.add_argument(
        "--jobs",
        type=int,
        metavar="N",
        help="runs at a time; default 1, with --engine as many as there is room for",
    )
    words.add_argument(
        "--dry-run",
        action="store_true",
        help="print the cells, those refused, and an estimate of the time; run nothing",
    )
    words.add_argument("--retry", choices=["failed"], help="run those again that failed")
    words.add_argument(
        "--cell",
        type=int,
        metavar="I",
        help="run one by its number alone, as --dry-run prints it: for any scheduler",
    )
    words.add_argument(
        "--engine",
        choices=ENGINES,
        default="local",
        help="processes here, Ray tasks, or a SLURM array; default local",
    )
    words.add_argument("--address", metavar="A", help="of the Ray cluster")
    words.add_argument(
        "--export",
        choices=["wandb"],
        help="print a W&B sweep configuration that runs the same cells",
    )
    return words


def sweep(plan: Plan, folder: Path, given: Any, args: list[str]) -> int:
    """Run all that is missing, then report."""
    from tfzoo.sweep import state
    from tfzoo.sweep.table import Table

    state.begin(plan, folder, shlex.join(["tfzoo", "sweep", *args]))
    every = state.runs(plan, folder)
    if given.retry:
        retry(plan, every)
    notify(f"sweep: {relative_path(folder)}")
    for cell in plan.cells:
        if cell.refused:
            notify(f"{cell.name}: refused: {cell.refused}")
    with Table(plan, every, given.jobs or 1) as table:
        missing = [one for one in every if state.status(one) not in ("completed", "failed")]
        jobs = given.jobs or (1 if given.engine == "local" else None)
        code = engine(given)(plan, folder, missing, jobs, table.told) if missing else 0
    if code:
        notify(f"tfzoo: stopped by a signal. Go on with: {again(args)}")
        return code
    code = tell(plan, every, args)
    report(folder)
    return code


def retry(plan: Plan, every: list[Run]) -> None:
    """Forget that runs failed. They go on from their checkpoints, but those that trained to the end
    begin anew.
    """
    from tfzoo.sweep import state, tune
    from tfzoo.sweep.cell import clear

    for one in [*(trial for run in every for trial in tune.trials(run, plan)), *every]:
        if state.failure(one.folder):
            with state.lock(one.folder) as held:
                if held is not None:
                    clear(one.folder) if state.complete(one.folder) else (
                        one.folder / state.FAILED
                    ).unlink()


def engine(given: Any) -> Callable[..., int]:
    """What runs them: the same signature for all."""
    run: Callable[..., int] = import_module(f"tfzoo.sweep.{given.engine}").run
    return partial(run, address=given.address) if given.engine == "ray" else run


def tell(plan: Plan, every: list[Run], args: list[str]) -> int:
    """How it ended, in a few lines; returns the exit code."""
    from tfzoo.sweep import state

    statuses = [state.status(run) for run in every]
    failed = [run for run, status in zip(every, statuses, strict=True) if status == "failed"]
    open_ = sum(status not in ("completed", "failed") for status in statuses)
    refused = sum(bool(cell.refused) for cell in plan.cells)
    print_result(
        f"{statuses.count('completed')} of {len(every)} runs completed, {len(failed)} failed; {refused} of {len(plan.cells)} cells refused"
    )
    for run in failed:
        print_result(
            f"  {run.name}: {state.failure(run.folder).get('reason')} ({relative_path(run.folder)})"
        )
    if failed:
        notify(f"To run them again: {again(args, '--retry failed')}")
    if open_:
        notify(
            f"{open_} not done: stopped, or another process is at them. Go on with: {again(args)}"
        )
    return 1 if failed or open_ else 0


def again(args: list[str], more: str = "") -> str:
    """The command that goes on."""
    rest = [
        word
        for index, word in enumerate(args)
        if word != "--retry" and word != "--retry=failed" and args[index - 1 : index] != ["--retry"]
    ]
    return " ".join([shlex.join(["tfzoo", "sweep", *rest]), more]).strip()


def report(folder: Path) -> None:
    """Write the report; the runs are what counts, and stay without it."""
    from tfzoo.sweep.report import write

    try:
        paths = write([folder])
    except Exception as error:
        print_error(f"no report: {type(error).__name__}: {error}")
        return
    for path in paths:
        print_result(relative_path(path))


def alone(given: Any, args: list[str]) -> int:
    """Run one by number; whoever counts runs them all, and ``tfzoo report`` follows."""
    from tfzoo.sweep import local, state
    from tfzoo.sweep.plan import load

    plan = load(given.file, given.cell)
    folder = Path(given.run or RUNS / plan.file.stem).expanduser().absolute()
    if not state.is_laid_out(plan, folder):
        plan = load(given.file)
        state.begin(plan, folder, shlex.join(["tfzoo", "sweep", *args]))
    cell = plan.cells[given.cell // len(plan.seeds)]
    found = [one for one in state.runs(plan, folder) if one.number == given.cell]
    if not found:
        print_result(f"{cell.name}: refused: {cell.refused}")
        return 0
    if given.retry:
        retry(plan, found)
    threads = (
        plan.threads or int(os.environ.get("OMP_NUM_THREADS", 0)) or None
    )  # a scheduler says so, as Ray does
    code = local.run(
        replace(plan, threads=threads),
        folder,
        found,
        1,
        lambda run, status: notify(f"{run.name}: {status}"),
    )
    return code or tell(plan, found, args)
