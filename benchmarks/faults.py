"""What becomes of a training under each fault: ``python benchmarks/faults.py [WORDS ...]`` prints those whose name has the words.

Every fault is a real one: a signal, a process that is killed, stopped or sleeps. Needs ``tfzoo`` to be importable, and Linux.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

TINY = (
    *("--data.dataset.train", "2000", "--data.dataset.val", "8", "--data.dataset.test", "8", "--data.dataset.long", "4"),
    *("--model.dim", "16", "--model.layers", "1", "--model.heads", "2", "--search.max_length", "0.2", "--trainer.accelerator", "cpu"),
    *("--trainer.max_steps", "100000", "--trainer.val_check_interval", "100000", "--trainer.log_every_n_steps", "1"),
)
TIMEOUT = 20
BREAKS = """\
import time

from lightning.pytorch import Callback


class Break(Callback):
    def __init__(self, how: str) -> None:
        self.how = how

    def on_train_batch_start(self, trainer, task, batch, batch_idx):
        if trainer.global_rank == 1 and trainer.global_step == 5:
            if self.how == "sleep":
                time.sleep(1000)
            raise ValueError("a text that nobody expected")
"""


@dataclass
class Run:
    """A training under way. ``processes`` are its own, the first of them first."""

    folder: Path
    started: subprocess.Popen[bytes]

    def processes(self) -> list[int]:
        found, known = [self.started.pid], {self.started.pid}
        for _ in range(3):  # also the children of children
            for entry in Path("/proc").glob("[0-9]*"):
                with suppress(OSError, IndexError, ValueError):
                    after = (entry / "stat").read_text("utf-8").rpartition(")")[2].split()
                    one = int(entry.name)
                    if int(after[1]) in known and one not in known and b"tfzoo" in (entry / "cmdline").read_bytes():
                        found.append(one)
                        known.add(one)
        return found

    def steps(self) -> int:
        """Rows of its metrics so far."""
        with suppress(OSError):
            return (self.folder / "mine/metrics.csv").read_text("utf-8").count("\n") - 1
        return 0

    def wait_for_steps(self, count: int = 3) -> None:
        end = time.monotonic() + 180
        while self.steps() < count:
            if self.started.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"did not start: {self.said()}")
            time.sleep(0.1)

    def said(self) -> list[str]:
        return (self.folder / "err").read_text("utf-8", errors="replace").strip().splitlines()


@contextmanager
def running(folder: Path, *args: str, processes: int = 2, launcher: tuple[str, ...] = (), **env: str) -> Iterator[Run]:
    """A training in a process group of its own; nothing of it is left afterwards."""
    (folder / "breaks.py").write_text(BREAKS, "utf-8")
    (folder / "recipe.yaml").write_text(
        "task: translation\ndata: {dataset: numbers, max_tokens: 1024}\ntrainer: {check_val_every_n_epoch: null}\n", "utf-8"
    )
    start = [*(launcher or (sys.executable, "-m")), "tfzoo", "fit", "recipe.yaml", *TINY, "--run", "mine", "--timeout", str(TIMEOUT)]
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "TFZOO_CACHE": str(folder / "cache"), **env}
    variables["PYTHONPATH"] = f"{Path(__file__).resolve().parents[1] / 'src'}{os.pathsep}{variables.get('PYTHONPATH', '')}"
    with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
        devices = ["--trainer.devices", str(processes), *args]
        started = subprocess.Popen([*start, *devices], cwd=folder, env=variables, stdout=out, stderr=err, start_new_session=True)
    try:
        yield Run(folder, started)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
        started.wait()


@dataclass
class Outcome:
    """``seconds`` from the fault until no process was left; ``code`` of the first process."""

    said: list[str]
    seconds: float
    code: int
    left: int
    step: int | None = None

    @property
    def line(self) -> str:
        """What names the fault, within the last six lines, or the last line there is."""
        return next((line for line in reversed(self.said[-6:]) if line.startswith("tfzoo: ") or "rank" in line), self.said[-1])


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
    """SLURM's signal before its time is over, to a job of one process; ``scontrol`` writes down how it was called."""
    tools = folder / "bin"
    tools.mkdir()
    (tools / "scontrol").write_text(f'#!/bin/sh\necho "$@" >> {folder}/asked\n', "utf-8")
    (tools / "scontrol").chmod(0o755)
    job = {"JOB_ID": "77", "JOB_NAME": "train", "NTASKS": "1", "NTASKS_PER_NODE": "1", "PROCID": "0", "LOCALID": "0", "NODEID": "0"}
    job |= {"NODELIST": "localhost"}
    env = {f"SLURM_{key}": value for key, value in job.items()}
    with running(folder, processes=1, PATH=f"{tools}{os.pathsep}{os.environ['PATH']}", **env) as run:
        run.wait_for_steps()
        os.kill(run.started.pid, signal.SIGUSR1)
        outcome = ended(run, [run.started.pid])
        outcome.said.append(f"scontrol {(folder / 'asked').read_text('utf-8').strip()!r}")
        return outcome


def under_torchrun(folder: Path) -> Outcome:
    """One of two processes that torchrun started is killed."""
    launcher = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", "-m", "--")
    with running(folder, launcher=launcher) as run:
        run.wait_for_steps()
        processes = run.processes()
        os.kill(processes[-1], signal.SIGKILL)
        return ended(run, processes)


def ended(run: Run, processes: list[int], most: float = 90) -> Outcome:
    """Wait until all of them are gone."""
    start = time.monotonic()
    with suppress(subprocess.TimeoutExpired):
        run.started.wait(most)
    while (left := [one for one in processes if is_alive(one)]) and time.monotonic() - start < most:
        time.sleep(0.1)
    code = run.started.returncode if run.started.returncode is not None else -1
    return Outcome(run.said(), time.monotonic() - start, code, len(left), saved(run.folder))


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def saved(folder: Path) -> int | None:
    """The steps that the summary counts, where a last checkpoint lies beside it."""
    with suppress(OSError, ValueError, KeyError):
        if (folder / "mine/checkpoints/last.ckpt").is_file():
            return int(json.loads((folder / "mine/summary.json").read_text("utf-8"))["fit"]["steps"])
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


def main(words: list[str]) -> None:
    print("| fault | what happened | seconds | exit code | processes left |\n|---|---|---|---|---|")
    for name, happen in FAULTS.items():
        if all(word in name for word in words):
            with tempfile.TemporaryDirectory() as folder:
                outcome = happen(Path(folder))
                step = f"; checkpoint of step {outcome.step}" if outcome.step else ""
                print(f"| {name} | {outcome.line}{step} | {outcome.seconds:.1f} | {outcome.code} | {outcome.left} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
