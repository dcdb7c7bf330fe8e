"""What becomes of a training under each fault: a real signal, process, disk, limit of memory, host.

    python -m benchmarks.faults              # all of them, as in faults.md
    python -m benchmarks.faults SIGTERM      # those whose name has the words

Needs ``tfzoo`` to be importable, and Linux; a disk of its own for a process needs ``unshare -Urm``.
"""

import argparse
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TINY = shlex.split(
    "--data.dataset.train 2000 --data.dataset.val 8 --data.dataset.test 8 --data.dataset.long 4 "
    "--model.dim 16 --model.layers 1 --model.heads 2 --search.max_length 0.2 "
    "--trainer.accelerator cpu --trainer.max_steps 100000 --trainer.val_check_interval 100000 "
    "--trainer.log_every_n_steps 1"
)
TIMEOUT = 20
MOST = 10.0
"""Seconds from a signal to the end, on a machine that starts a training in less."""
FEW = 30
"""Steps of a training whose fault comes from within."""
AT_EXIT = re.compile(
    r"^(nanobind: .*| - (leaked|\.\.\.) .*|See \S+/refleaks\.html)\n?", re.MULTILINE
)
"""What Triton's bindings, where they are installed, print after the last word of a process."""
BREAKS = """\
import contextlib
import time
from pathlib import Path

from lightning.pytorch import Callback


class Break(Callback):
    def __init__(self, how: str) -> None:
        self.how = how

    def on_train_batch_start(self, trainer, task, batch, batch_idx):
        act = getattr(self, f"{self.how}_{task.batches}", None)
        if act is not None and trainer.global_rank == trainer.world_size - 1:
            with contextlib.suppress(FileExistsError):
                Path("happened").touch(exist_ok=False)
            act(task)

    def raise_5(self, task):
        raise ValueError("a text that nobody expected")

    def sleep_5(self, task):
        time.sleep(1000)

    def memory_0(self, task):
        import resource

        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 300 * 2**20, resource.RLIM_INFINITY))

    def full_5(self, task):
        with open("disk/filler", "wb", 0) as stream, contextlib.suppress(OSError):
            while stream.write(bytes(4096)):
                pass

    def nan_5(self, task):
        modules = dict(task.model.named_modules())
        name = next(name for name in modules if name.endswith("feedforward"))
        self.hook = modules[name].register_forward_hook(lambda m, given, out: out * float("nan"))

    def nan_8(self, task):
        self.hook.remove()

    nans_5 = nan_5
"""


@dataclass
class Run:
    """A training under way. ``processes`` are its own, the first of them first."""

    folder: Path
    started: subprocess.Popen[bytes]
    name: str
    launched: float
    start: float = 0.0
    """Seconds until its first step was over."""

    def processes(self) -> list[int]:
        found = [self.started.pid]
        for _ in range(3):  # also the children of children
            for entry in Path("/proc").glob("[0-9]*"):
                with suppress(OSError):
                    parent = state(entry.name)[1:2]
                    ours = parent and int(parent[0]) in found and int(entry.name) not in found
                    if ours and b"tfzoo" in (entry / "cmdline").read_bytes():
                        found.append(int(entry.name))
        return found

    def steps(self) -> int:
        """Rows of its metrics so far."""
        with suppress(OSError):
            return (self.folder / self.name / "metrics.csv").read_text("utf-8").count("\n") - 1
        return 0

    def wait_for_steps(self, count: int = 3) -> None:
        end = time.monotonic() + 180
        while self.steps() < count:
            if self.started.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"did not start: {self.said()}")
            self.start = self.start or (self.steps() > 0) * (time.monotonic() - self.launched)
            time.sleep(0.1)
        self.start = self.start or time.monotonic() - self.launched

    def said(self) -> list[str]:
        printed = (self.folder / "err").read_text("utf-8", errors="replace")
        return AT_EXIT.sub("", printed).strip().splitlines()


@contextmanager
def running(
    folder: Path,
    *args: str,
    processes: int = 2,
    launcher: tuple[str, ...] = (),
    name: str = "mine",
    **env: str,
) -> Iterator[Run]:
    """A training in a process group of its own; nothing of it is left afterwards. A variable that
    is ``""`` is not set.
    """
    (folder / "breaks.py").write_text(BREAKS, "utf-8")
    (folder / "recipe.yaml").write_text(
        "task: translation\ndata: {dataset: numbers, max_tokens: 1024}\ntrainer: "
        "{check_val_every_n_epoch: null}\n",
        "utf-8",
    )
    fit = ["tfzoo", "fit", "recipe.yaml", *TINY, "--run", name, "--timeout", str(TIMEOUT)]
    start = [*(launcher or (sys.executable, "-m")), *fit]
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "TFZOO_CACHE": str(folder / "cache"), **env}
    source = Path(__file__).resolve().parents[1] / "src"
    variables["PYTHONPATH"] = f"{source}{os.pathsep}{variables.get('PYTHONPATH', '')}"
    with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
        devices = ["--trainer.devices", str(processes), *args]
        variables = {key: value for key, value in variables.items() if value}
        launched = time.monotonic()
        started = subprocess.Popen(
            [*start, *devices],
            cwd=folder,
            env=variables,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
    try:
        yield Run(folder, started, name, launched)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
        started.wait()


@dataclass
class Outcome:
    """``seconds`` from the fault until no process was left; ``code`` of the first process;
    ``words`` those of the line that matters.

    ``allowed`` are the seconds that a training may take to end after a signal: ten, or on a busy
    machine as many as it took to start.
    """

    said: list[str]
    seconds: float
    code: int
    left: int
    step: int | None = None
    words: str = ""
    allowed: float = MOST

    @property
    def line(self) -> str:
        """What names the fault: the line with the words, or one within the last six, or the last
        line there is.
        """
        if self.words:
            return next((line for line in self.said if self.words in line), self.said[-1])
        named = (line for line in self.said[-6:] if line.startswith("tfzoo: ") or "rank" in line)
        return [self.said[-1], *named][-1]


def signalled(number: int, *whom: int, again: bool = False) -> Callable[[Path], Outcome]:
    """Send a signal to some processes of two, in mid-training; ``again``: twice."""

    def happen(folder: Path) -> Outcome:
        with running(folder) as run:
            run.wait_for_steps()
            processes = run.processes()
            for one in whom:
                os.kill(processes[one], number)
            if again:
                time.sleep(0.05)
                os.kill(processes[0], number)
            return ended(run, processes)

    return happen


def broken(how: str) -> Callable[[Path], Outcome]:
    """Process 1 raises an error at its sixth step, or sleeps there."""

    def happen(folder: Path) -> Outcome:
        args = ("--trust", "--trainer.callbacks+=breaks.Break", f"--trainer.callbacks.how={how}")
        with running(folder, *args) as run:
            run.wait_for_steps(5)
            return ended(run, run.processes())

    return happen


def under_slurm(folder: Path) -> Outcome:
    """SLURM's signal before its time is over, to a job of one process; ``scontrol`` writes down how
    it was called.
    """
    tools = folder / "bin"
    tools.mkdir()
    (tools / "scontrol").write_text(f'#!/bin/sh\necho "$@" >> {folder}/asked\n', "utf-8")
    (tools / "scontrol").chmod(0o755)
    job = {"JOB_ID": "77", "JOB_NAME": "train", "NODELIST": "localhost", "NTASKS": "1"}
    job |= {"NTASKS_PER_NODE": "1", "PROCID": "0", "LOCALID": "0", "NODEID": "0"}
    env = {f"SLURM_{key}": value for key, value in job.items()}
    env["PATH"] = f"{tools}{os.pathsep}{os.environ['PATH']}"
    with running(folder, processes=1, **env) as run:
        run.wait_for_steps()
        os.kill(run.started.pid, signal.SIGUSR1)
        outcome = ended(run, [run.started.pid])
        outcome.said.append(f"scontrol {(folder / 'asked').read_text('utf-8').strip()!r}")
        return outcome


def under_torchrun(folder: Path) -> Outcome:
    """One of two processes that torchrun started is killed."""
    torchrun = shlex.split("-m torch.distributed.run --standalone --nproc_per_node 2 -m --")
    with running(folder, launcher=(sys.executable, *torchrun)) as run:
        run.wait_for_steps()
        processes = run.processes()
        os.kill(processes[-1], signal.SIGKILL)
        return ended(run, processes)


def ended(run: Run, processes: list[int], most: float = 150) -> Outcome:
    """Wait until all of them are gone."""
    start = time.monotonic()
    with suppress(subprocess.TimeoutExpired):
        run.started.wait(most)
    while (left := [one for one in processes if is_alive(one)]) and time.monotonic() - start < most:
        time.sleep(0.1)
    code = run.started.returncode if run.started.returncode is not None else -1
    seconds, allowed = time.monotonic() - start, max(MOST, run.start)
    return Outcome(run.said(), seconds, code, len(left), saved(run), allowed=allowed)


def within(how: str, words: str, *args: str, disk: bool = False) -> Callable[[Path], Outcome]:
    """A fault that comes from within a training of one process, which ends by itself."""

    def happen(folder: Path) -> Outcome:
        fault = ("--trust", "--trainer.callbacks+=breaks.Break", f"--trainer.callbacks.how={how}")
        own = {"name": "disk/mine", "launcher": (*small_disk(folder), sys.executable, "-m")}
        options: dict[str, Any] = own if disk else {}
        few = ("--trainer.max_steps", str(FEW))
        with running(folder, *fault, *few, *args, processes=1, **options) as run:
            run.started.wait(600)
            if not (folder / "happened").exists():
                raise RuntimeError(f"did not start: {run.said()}")
            seconds = time.time() - (folder / "happened").stat().st_mtime
            said = [*run.said(), *(folder / "out").read_text("utf-8").splitlines()]
            left = group(run.started.pid)
            return Outcome(said, seconds, run.started.returncode, left, saved(run), words)

    return happen


def small_disk(folder: Path) -> tuple[str, ...]:
    """What a command starts with that has a file system of 8 MB of its own, on ``disk``."""
    (folder / "disk").mkdir()
    mount = 'mount -t tmpfs -o size=8m none "$0" && exec "$@"'
    return ("unshare", "-Urm", "sh", "-c", mount, str(folder / "disk"))


def state(process: int | str) -> list[str]:
    """What Linux says of a process behind its name: its state, parent and group, and more; nothing
    of one that has ended.
    """
    with suppress(OSError):
        found = Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(")")[2].split()
        return found if found[0] not in "ZX" else []
    return []


def group(number: int) -> int:
    """How many processes of a group live."""
    return sum(state(one.name)[2:3] == [str(number)] for one in Path("/proc").glob("[0-9]*"))


def is_alive(process: int) -> bool:
    return bool(state(process))


def saved(run: Run) -> int | None:
    """The steps that the summary counts, where a last checkpoint lies beside it."""
    folder = run.folder / run.name
    with suppress(OSError, ValueError, KeyError):
        if (folder / "checkpoints/last.ckpt").is_file():
            return int(json.loads((folder / "summary.json").read_text("utf-8"))["fit"]["steps"])
    return None


FAULTS: dict[str, Callable[[Path], Outcome]] = {
    "process 1 killed": signalled(signal.SIGKILL, 1),
    "process 0 killed": signalled(signal.SIGKILL, 0),
    "process 1 fails": broken("raise"),
    "process 1 stopped": signalled(signal.SIGSTOP, 1),
    "process 0 stopped": signalled(signal.SIGSTOP, 0),
    "process 1 sleeps": broken("sleep"),
    "SIGTERM to process 0": signalled(signal.SIGTERM, 0),
    "SIGTERM to process 1": signalled(signal.SIGTERM, 1),
    "SIGTERM to all": signalled(signal.SIGTERM, 0, 1),
    "SIGUSR1 to all": signalled(signal.SIGUSR1, 0, 1),
    "SIGUSR1 under SLURM": under_slurm,
    "Ctrl-C": signalled(signal.SIGINT, 0, 1),
    "Ctrl-C twice": signalled(signal.SIGINT, 0, 1, again=True),
    "process 1 killed under torchrun": under_torchrun,
}


LARGE = ("--data.max_tokens", "100000", "--data.dataset.train", "20000", "--model.dim", "64")
OFTEN = ("--checkpoint.every_n_train_steps", "1")
FROM_WITHIN: dict[str, Callable[[Path], Outcome]] = {
    "disk full": within("full", "No space left", *OFTEN, disk=True),
    "out of memory": within("memory", "out of memory", *LARGE),
    "3 steps not finite": within("nan", "skipped"),
    "all steps not finite": within("nans", "in a row"),
}
"""Tested beside what they happen to: ``tests/runs``, ``tests/tasks/test_learner.py``."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    print(
        "| fault | what happened | seconds | exit code | processes left |",
        "|---" * 5 + "|",
        sep="\n",
    )
    for name, happen in (FAULTS | FROM_WITHIN).items():
        if all(word in name for word in options.words):
            with tempfile.TemporaryDirectory() as folder:
                outcome = happen(Path(folder))
            step = f"; checkpoint of step {outcome.step}" if outcome.step else ""
            said = f"{outcome.line.replace(folder, '')}{step}".replace("|", "/")
            ended = f"{outcome.seconds:.1f} | {outcome.code} | {outcome.left}"
            print(f"| {name} | {said} | {ended} |", flush=True)


if __name__ == "__main__":
    main()
