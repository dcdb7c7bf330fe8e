"""The folder of a run, shared by all its processes and by attempts that go on: ``config.yaml``, its
configuration; ``summary.json``, the results of each command on it, one section per command;
``metrics.csv``, what training has logged; and a lock, so that one process at a time writes.

The lock is one of the operating system, which frees it when the process ends, however it ends, and
on a shared file system as far as that passes locks on to other hosts.
"""

import csv
import json
import os
import re
import socket
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from tfzoo.base.files import TEMPORARY, object_of, replace_text
from tfzoo.base.processes import rank
from tfzoo.base.yaml_files import as_yaml, parse_yaml, read_yaml
from tfzoo.errors import BadRecipe, BadRun

RUNS = Path("runs")
SCHEME = "hf://"
"""What the address of a run on the Hub begins with."""
ADDRESS = re.compile(rf"{SCHEME}([\w.-]+/[\w.-]+)(?:@([\w./-]+))?")
"""``hf://name/repository``, or ``hf://name/repository@revision``."""
CONFIG, SUMMARY, METRICS = "config.yaml", "summary.json", "metrics.csv"
SHARED = "TFZOO_RUN_FOLDER"
"""The environment variable in which the first process passes the folder to processes that Lightning
starts with the same command line.
"""
LOCK, LOCK_OWNER = "lock", "lock.owner"
"""The files of a lock, which count as nothing in a folder; the second says who holds it."""
MOMENT = 0.5
"""Seconds that a process which only looks whether a folder is held may hold it."""
PASSED = "TFZOO_LOCK"
"""The environment variable by which a sweep lets the training that it starts into the folder that
it holds.
"""
SCORELESS = {
    *("trainer.max_time", "trainer.accelerator", "data.workers", "timeout", "explain"),
    *("trainer.logger", "trainer.log_every_n_steps", "trainer.profiler"),
    *("trainer.enable_progress_bar", "trainer.enable_model_summary"),
}
"""Keys of a recipe that do not change the scores of a training that has ended."""
MAY_CHANGE = {
    *SCORELESS,
    *(f"trainer.{end}_{unit}" for end in ("max", "min") for unit in ("steps", "epochs", "time")),
    *(f"trainer.limit_{split}_batches" for split in ("val", "test", "predict")),
    *("trainer.devices", "trainer.num_nodes", "trainer.accumulate_grad_batches"),
    *("train_tokens", "from"),
}
"""Keys that may change, with all below them, when a run goes on: how long training lasts, what is
logged, on how many processes it runs, and where it once began. A step must keep its number of
batches, which is checked when all processes have started. ``limit_train_batches`` may not change:
it decides which batches an epoch has; nor may ``strategy``: under ``fsdp2``, the averages of Adam
are stored in another order.
"""

MOST_NAMED = 4
"""How many changed keys a message names."""


class Held(BadRun):
    """Another process holds the folder."""


@contextmanager
def holding(folder: Path, patience: float = MOMENT) -> Iterator[str]:
    """Hold a folder, which exists; ``patience`` are the seconds to wait for it. Yields what
    :data:`PASSED` must be for a process to be let in.

    Raises:
        Held: another process holds it; the message names host and process.
    """
    token, owner = str(folder.resolve()), folder / LOCK_OWNER
    if os.environ.get(PASSED) == token:
        yield token
        return
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(patience)
        owner.write_text(f"process {os.getpid()} on {socket.gethostname()}", "utf-8")
    except Timeout:
        holder = owner.read_text("utf-8") if owner.is_file() else ""
        raise Held(
            f"{folder} is in use by {holder or 'another process'}: wait until it has ended, or "
            "name another folder with --run"
        ) from None
    except (OSError, NotImplementedError) as error:  # a file system without locks
        raise BadRun(f"cannot lock {folder}: {getattr(error, 'strerror', None) or error}") from None
    try:
        yield token
    finally:
        with suppress(OSError):
            owner.unlink()
            (folder / LOCK).unlink()  # who waits for it notices, and makes another one
        lock.release()


@contextmanager
def opened(name: str, wanted: str | None) -> Iterator[Path]:
    """Context in which this process holds the folder of a run, chosen by :func:`choose`. What a
    killed process left in it is removed, and so is the folder where the work in it fails and leaves
    it empty.
    """
    folder = choose(name, wanted)
    try:
        with nullcontext() if rank() else holding(folder):
            if not rank():
                for path in folder.rglob(TEMPORARY):
                    with suppress(OSError):  # a folder that is exported
                        path.unlink()
            yield folder
    except BaseException:
        with suppress(OSError):  # it is not empty
            if not rank():
                folder.rmdir()
                if not wanted:  # it lies in a folder of the user's, perhaps the working directory
                    folder.parent.rmdir()
                    RUNS.rmdir()
        raise
    finally:  # programs that are started later in this process's environment have other folders
        os.environ.pop(SHARED, None)


def choose(name: str, wanted: str | None = None) -> Path:
    """Choose and make the folder of a run: ``wanted``, which is empty or holds a run that goes on,
    else ``runs/<name>/<n>`` with a new n. All processes get the choice of the first one.
    """
    if rank() and SHARED in os.environ:
        return Path(os.environ[SHARED])
    launchers = {"RANK": "WORLD_SIZE", "SLURM_PROCID": "SLURM_NTASKS"}  # torchrun, srun
    is_first_of_several = any(
        name in os.environ and os.environ.get(size, "1") != "1" for name, size in launchers.items()
    )
    if (rank() or is_first_of_several) and not wanted:
        raise BadRun(
            "processes that were started one by one need one folder for all of them: --run FOLDER"
        )
    if wanted:
        folder = Path(wanted).expanduser().absolute()
        names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
        if names - {LOCK, LOCK_OWNER} and CONFIG not in names and not rank():
            raise BadRun(
                f"--run {wanted} is not empty and no run. Name a new folder, or leave --run out "
                f"for a new one under {RUNS}/{name}"
            )
        make(folder)
    else:
        place = RUNS.absolute() / name
        numbers = (int(path.name) for path in place.glob("*") if path.name.isdigit())
        folder = place / str(1 + max(numbers, default=0))
        while not make(folder, new=True):  # another process may take the number first
            folder = place / str(int(folder.name) + 1)
    os.environ[SHARED] = str(folder)
    return folder


def make(folder: Path, new: bool = False) -> bool:
    """Make a folder. Returns False where it must be ``new`` and exists."""
    try:
        folder.mkdir(parents=True, exist_ok=not new)
    except OSError as error:
        if new and isinstance(error, FileExistsError):
            return False
        raise BadRun(f"cannot make the run's folder {folder}: {error.strerror}") from None
    return True


def similar_runs(run: str | Path) -> str:
    """The latest 5 runs to suggest for one that is missing: beside it, else in ``runs/``."""
    around = Path(run).parent
    beside = [*around.glob(f"*/{CONFIG}"), *around.glob(f"*/*/{CONFIG}")]
    runs = [path.parent for path in beside or RUNS.glob(f"*/*/{CONFIG}")]
    runs.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    return ", ".join(map(str, runs[:5])) + ", ..." * (len(runs) > 5)


def check_exists(run: str | Path) -> None:
    """Check that a run is there, whatever it is; one on the Hub is not looked for."""
    path = Path(run).expanduser()
    if not str(run).startswith(SCHEME) and not path.exists():
        others = similar_runs(path)
        there = f"Runs there are: {others}" if others else "tfzoo fit RECIPE makes one"
        raise BadRun(f"no run at {run}. {there}")


def write_config(folder: Path, recipe: Mapping[str, Any]) -> None:
    """Write the resolved recipe into the run's folder."""
    replace_text(folder / CONFIG, as_yaml(recipe))


def read_config(folder: Path) -> dict[str, Any]:
    """The configuration that a run was started with; empty where it cannot be read."""
    try:
        return read_yaml(folder / CONFIG)
    except BadRecipe:
        return {}


def check_config(
    folder: Path, recipe: Mapping[str, Any], defaults: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """Check that a run can go on with this recipe, and return the dotted names of what differs from
    the run's own. The run may lack keys that came after it: ``defaults`` has their values, by
    section.
    """
    before = read_config(folder)
    if not before:
        raise BadRun(
            f"{folder / CONFIG} cannot be read, so nobody knows how this run was configured. Name "
            "another folder with --run"
        )
    for section, values in defaults.items():
        kept = before.get(section)
        if isinstance(kept, dict):
            before[section] = {**values, **kept}
    before = parse_yaml(as_yaml(before), CONFIG)  # tuples of the defaults are lists in a recipe
    old, new = set_values(before), set_values(recipe)
    differing = [name for name in sorted(old.keys() | new.keys()) if old.get(name) != new.get(name)]
    may_change = tuple(f"{key}." for key in MAY_CHANGE)
    names = [name for name in differing if not f"{name}.".startswith(may_change)]
    if names:
        changes = [
            f"{name} was {old.get(name, 'not set')}, is {new.get(name, 'not set')}"
            for name in names[:MOST_NAMED]
        ]
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        raise BadRun(
            f"{folder} has another configuration: {'; '.join(changes)}{more}. It goes on with "
            f"its own alone, tfzoo fit {folder / CONFIG} --run {folder}; or name another run"
        )
    return differing


def set_values(value: Any, name: str = "") -> dict[str, Any]:
    """Values by dotted name. An empty mapping is a value, and so is a list; None is not set."""
    if isinstance(value, Mapping) and value:
        return {
            path: inner
            for key in value
            for path, inner in set_values(value[key], f"{name}.{key}".removeprefix(".")).items()
        }
    return {} if value is None else {name: value}


def write_summary(folder: Path, command: str, section: Mapping[str, Any]) -> None:
    """Write the section of a command into a run's summary; other sections stay as they are. NaN and
    infinities become null, objects that JSON does not have strings.
    """
    path = folder / SUMMARY
    in_json = json.loads(json.dumps(dict(section), default=str), parse_constant=lambda _: None)
    summary = {**read_summary(folder), command: in_json}
    replace_text(path, json.dumps(summary, indent=2, ensure_ascii=False) + "\n")


def read_summary(folder: Path) -> dict[str, Any]:
    """The sections of a run's summary; none where the file is missing or damaged."""
    sections = object_of(folder / SUMMARY).items()
    return {name: section for name, section in sections if isinstance(section, dict)}


def attempts(folder: Path) -> list[dict[str, Any]]:
    """The attempts in a run's summary. One that is still recorded as running was killed."""
    recorded = read_summary(folder).get("fit", {}).get("attempts", [])
    killed = {"ended": "killed"}
    return [
        {**attempt, **(killed if attempt.get("ended") == "running" else {})}
        for attempt in (recorded if isinstance(recorded, list) else ())
        if isinstance(attempt, dict)
    ]


def is_complete(folder: Path) -> bool:
    """Whether ``fit`` trained to the end and scored the test sets, if there are any."""
    summary = read_summary(folder)
    fit = summary.get("fit", {})
    return fit.get("ended") == "completed" and ("test" in summary or not fit.get("test_sets"))


def recorded_scores(folder: Path, checkpoint: str) -> dict[str, float]:
    """The scores in a run's summary that are of the checkpoint of this file name."""
    recorded: dict[str, Any] = {}
    for section in read_summary(folder).values():
        scores = section.get("best" if "attempts" in section else "scores")
        if Path(str(section.get("checkpoint"))).name == checkpoint and isinstance(scores, dict):
            recorded |= scores
    return {
        name: float(value)
        for name, value in recorded.items()
        if isinstance(value, int | float) and not name.endswith("/items")
    }


def logged_curves(folder: Path) -> dict[str, dict[int, float]]:
    """The values of each metric by step, from 1, as far as there is a file and it is not damaged. A
    last row without its line break is left out: whoever wrote it was killed, or still writes it.
    """
    curves: dict[str, dict[int, float]] = defaultdict(dict)
    with suppress(OSError, ValueError, TypeError, KeyError):
        complete, _, _ = (folder / METRICS).read_bytes().rpartition(b"\n")
        for row in csv.DictReader(complete.decode("utf-8").splitlines()):
            for key, value in row.items():
                if key and value and key not in ("step", "epoch"):
                    curves[key][int(row["step"])] = float(value)
    return dict(curves)
