"""The folder of a run: a new one for each training, shared by all its processes and by attempts
that go on.
"""

from __future__ import annotations

import os
from pathlib import Path

from tfzoo.base.ranks import rank
from tfzoo.errors import BadRun

RUNS = Path("runs")
LOCK, LOCK_OWNER = "lock", "lock.owner"
"""The files of :mod:`tfzoo.runs.lock` in the folder of a run, which count as nothing."""
SHARED = "TFZOO_RUN_FOLDER"
"""The environment variable in which the first process passes the folder to processes that Lightning
starts with the same command line.
"""


def choose(name: str, given: str | None = None) -> Path:
    """Choose and make the folder of a run: ``given``, which is empty or holds a run that goes on,
    else ``runs/<name>/<n>`` with a new n. All processes get the choice of the first one.

    Raises:
        BadRun: the folder given holds something that is no run, or cannot be written.
    """
    if rank() and SHARED in os.environ:
        return Path(os.environ[SHARED])
    if rank() and not given:
        raise BadRun(
            "processes that were started one by one need one folder for all of them: --run FOLDER"
        )
    if given:
        folder = Path(given).expanduser().absolute()
        taken = (
            folder.exists()
            and (
                not folder.is_dir() or {path.name for path in folder.iterdir()} - {LOCK, LOCK_OWNER}
            )
            and not (folder / "config.yaml").is_file()
        )
        if taken and not rank():
            raise BadRun(
                f"--run {given} is not empty and no run. Name a new folder, or leave --run out "
                f"for a new one under {RUNS}/{name}"
            )
        make(folder)
    else:
        n = 1 + max(
            (int(path.name) for path in (RUNS / name).glob("*") if path.name.isdigit()), default=0
        )
        while not make(
            RUNS.absolute() / name / str(n), new=True
        ):  # another process may take the number first
            n += 1
        folder = RUNS.absolute() / name / str(n)
    os.environ[SHARED] = str(folder)
    return folder


def make(folder: Path, new: bool = False) -> bool:
    """Make a folder. Returns False where it must be ``new`` and exists."""
    try:
        folder.mkdir(parents=True, exist_ok=not new)
    except FileExistsError:
        return False
    except OSError as error:
        raise BadRun(f"cannot make the run's folder {folder}: {error.strerror}") from None
    return True


def similar_runs(run: str | Path) -> list[str]:
    """Up to 5 runs to suggest for one that does not exist: in the same folder, else the latest in
    ``runs/``.
    """
    beside = sorted(path.parent for path in Path(run).parent.glob("*/config.yaml"))
    found = beside or sorted(
        (path.parent for path in RUNS.glob("*/*/config.yaml")),
        key=lambda path: -path.stat().st_mtime,
    )
    return [str(path) for path in found[:5]]
