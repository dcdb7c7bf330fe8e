"""Kill a training with SIGKILL, restart it with the same command, and compare it with one that
nobody disturbed, bit for bit.

    python benchmarks/kill.py                        # 20 random moments, every file event of one
    save, epoch boundaries; 1 and 2 processes python benchmarks/kill.py --processes 1 --kills 2
    --events 3

Each kill is printed: what was aimed at, the last step in metrics.csv, whether it fell into a save,
and the step of the last checkpoint. Exit code 1 if weights, optimiser, schedule or a row of
metrics.csv differ in the end. TMPDIR is on another file system than the runs where /dev/shm is one.
"""

import argparse
import csv
import io
import os
import random
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

RECIPE = shlex.split(
    "fit translation/numbers --trainer.accelerator cpu --trainer.log_every_n_steps 1 "
    "--trainer.limit_val_batches 1 --data.dataset.train 200 --data.dataset.val 8 "
    "--data.dataset.test 8 --data.dataset.long 4 --data.max_tokens 128 --model.dim 16 "
    "--model.layers 1 --model.heads 2 --search.max_length 0.2 --trainer.val_check_interval 7 "
    "--trainer.check_val_every_n_epoch null --checkpoint.every_n_train_steps 3"
)
LAST = "checkpoints/last.ckpt"
NEVER_EQUAL = {"train/tokens_per_second"}


class Events:
    """Counts what saves ask of the file system, and does something at one of them."""

    def __init__(
        self, fatal: int = 0, act: Callable[[], Any] = lambda: os.kill(os.getpid(), signal.SIGKILL)
    ) -> None:
        self.seen: list[str] = []
        self.fatal, self.act = fatal, act

    def note(self, what: str) -> None:
        self.seen.append(what)
        if len(self.seen) == self.fatal:
            self.act()

    @contextmanager
    def watched(self) -> Iterator[None]:
        from tfzoo.training import trainer

        events = self

        class Watched(io.FileIO):
            def write(self, data: Any) -> int:
                whole, half = memoryview(data), len(data) // 2  # a kill can fall into a write
                for part in (whole[:half], whole[half:]):
                    events.note("write")
                    super().write(part)
                return len(data)

        def opened(path: Any, mode: str) -> io.BufferedWriter:
            events.note(f"open {Path(path).name}")
            return io.BufferedWriter(Watched(path, mode))

        def synced(handle: int, real: Any = os.fsync) -> None:
            events.note(
                "sync folder" if Path(f"/proc/self/fd/{handle}").resolve().is_dir() else "sync file"
            )
            real(handle)

        def replaced(old: Any, new: Any, real: Any = os.replace) -> None:
            if Path(new).suffix == ".ckpt":
                events.note(f"rename {Path(old).name} {Path(new).name}")
            real(old, new)

        with (
            patch.object(trainer, "open", opened, create=True),
            patch("os.fsync", synced),
            patch("os.replace", replaced),
        ):
            yield


def die() -> None:
    """All processes of this training at once."""
    os.killpg(0, signal.SIGKILL)


@contextmanager
def undisturbed() -> Iterator[None]:
    yield


@contextmanager
def at_event(number: int, of_save: int, seen: Path | None = None) -> Iterator[None]:
    """Die at a file event of a certain save; with ``seen``, only note the events of that save."""
    from tfzoo.training.trainer import AtomicCheckpointIO

    saves, save = 0, AtomicCheckpointIO.save_checkpoint

    def counted(self: AtomicCheckpointIO, *args: Any, **options: Any) -> None:
        nonlocal saves
        saves += 1
        events = Events(number, die)
        with events.watched() if saves == of_save else undisturbed():
            save(self, *args, **options)
        if seen and events.seen:
            seen.write_text("\n".join(events.seen))

    with patch.object(AtomicCheckpointIO, "save_checkpoint", counted):
        yield


@contextmanager
def at_hook(name: str) -> Iterator[None]:
    """Die in a hook at the border of the first two epochs."""
    from tfzoo.training.resume import LastCheckpoint

    before = getattr(LastCheckpoint, name)

    def last(self: LastCheckpoint, trainer: Any, *args: Any) -> None:
        before(self, trainer, *args)
        if trainer.current_epoch == (name == "on_train_epoch_start") and (
            trainer.is_last_batch or name == "on_train_epoch_start"
        ):
            die()

    with patch.object(LastCheckpoint, name, last):
        yield


class Trainings:
    """Runs of one recipe with so many processes, in folders beside each other, each in a fork of
    this warm process.
    """

    def __init__(self, folder: Path, processes: int, steps: int) -> None:
        self.folder = folder / f"{processes} processes, {steps} steps"
        self.processes, self.steps = processes, steps
        self.folder.mkdir(parents=True)
        begun = time.monotonic()
        if self.start("undisturbed")[0]:
            sys.exit((self.folder / "undisturbed.log").read_text())
        self.seconds = time.monotonic() - begun

    def start(
        self, name: str, aim: Any = undisturbed, moment: float | None = None
    ) -> tuple[int, float]:
        """Train, or go on, until the end, a kill that ``aim`` brings, or the ``moment``; the exit
        code, and the seconds it took.
        """
        begun, child = time.monotonic(), os.fork()
        if not child:
            self.train(name, aim)
        while True:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status), time.monotonic() - begun
            if moment is not None and time.monotonic() - begun > moment:
                with suppress(ProcessLookupError):  # it has no group of its own yet
                    os.killpg(child, signal.SIGKILL)
                    moment = None
            time.sleep(0.001)

    def train(self, name: str, aim: Any) -> None:
        code = 1
        try:
            os.setsid()
            log = os.open(self.folder / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(log, 1), os.dup2(log, 2)
            from tfzoo.commands.main import main

            with aim():
                limits = ["--trainer.devices", str(self.processes)]
                limits += ["--trainer.max_steps", str(self.steps)]
                code = main([*RECIPE, *limits, "--run", str(self.folder / name)])
        finally:
            sys.stdout.flush(), sys.stderr.flush()
            os._exit(code)

    def kill(
        self, name: str, what: str, aim: Any = undisturbed, moment: float | None = None
    ) -> bool | None:
        """One kill, printed; None where training ended before it. ``True``: it fell into a save."""
        code, seconds = self.start(name, aim, moment)
        if code == 0:
            return None
        run = self.folder / name
        saving = any((run / "checkpoints").glob("*.tmp"))
        step = max((int(row["step"]) for row in rows(run)), default=0)
        ended = "" if code == -signal.SIGKILL else f", BUT IT ENDED WITH {code}"
        print(
            f"  {what}: {seconds:.2f} s, step {step}{', in a save' if saving else ''}, last "
            f"checkpoint of step {trained(run)}{ended}",
            flush=True,
        )
        return saving

    def finish(self, name: str) -> list[str]:
        """Go on to the end; what then differs from the training that nobody disturbed."""
        code, _ = self.start(name)
        if code:
            said = (self.folder / f"{name}.log").read_text().strip().splitlines()
            return [f"{name} ended with {code}: {said[-1]}"]
        found = differences(self.folder / name, self.folder / "undisturbed")
        return [f"{name}: {difference}" for difference in found]


def rows(run: Path) -> list[dict[str, str]]:
    if not (run / "metrics.csv").exists():
        return []
    with (run / "metrics.csv").open(newline="") as stream:
        return [row for row in csv.DictReader(stream) if (row["step"] or "").isdigit()]


def load(path: Path) -> dict[str, Any]:
    import torch

    return torch.load(path, weights_only=True)  # type: ignore[no-any-return]


def trained(run: Path) -> int:
    return int(load(run / LAST)["global_step"]) if (run / LAST).exists() else 0


def differences(run: Path, other: Path) -> list[str]:
    """Where two runs are not equal in every bit."""
    import torch

    found = []

    def compare(here: Any, there: Any, place: str) -> None:
        if isinstance(here, torch.Tensor) and isinstance(there, torch.Tensor):
            same = here.dtype == there.dtype and torch.equal(
                here.reshape(-1).view(torch.uint8), there.reshape(-1).view(torch.uint8)
            )
        elif isinstance(here, dict) and isinstance(there, dict) and here.keys() == there.keys():
            same = True
            for key in here:
                compare(here[key], there[key], f"{place}.{key}")
        elif isinstance(here, list) and isinstance(there, list) and len(here) == len(there):
            same = True
            for number, pair in enumerate(zip(here, there, strict=True)):
                compare(*pair, f"{place}.{number}")
        else:
            same = here == there
        if not same:
            found.append(f"{place} differs")

    mine, theirs = load(run / LAST), load(other / LAST)
    for key in ("state_dict", "optimizer_states", "lr_schedulers", "global_step", "epoch"):
        compare(mine[key], theirs[key], key)
    compare(mine["tfzoo"]["batches"], theirs["tfzoo"]["batches"], "batches")
    tables = [
        [{key: row[key] for key in sorted(row.keys() - NEVER_EQUAL)} for row in rows(each)]
        for each in (run, other)
    ]
    compare(*tables, "metrics.csv")
    return found if len(found) < 4 else [*found[:3], f"and {len(found) - 3} more"]


def random_kills(trainings: Trainings, kills: int, draw: random.Random) -> tuple[list[str], int]:
    """Kill at random moments, each run until it ends, then the next. Returns what differs, and how
    many kills fell into a save.
    """
    wrong, done, saves, run = [], 0, 0, 0
    while done < kills:
        run += 1
        name = f"random {run}"
        while done < kills:
            moment = draw.uniform(0, trainings.seconds)
            what = f"kill {done + 1} of {kills}, after {moment:.2f} s, in run {run}"
            saving = trainings.kill(name, what, moment=moment)
            if saving is None:
                break
            done, saves = done + 1, saves + saving
        wrong += trainings.finish(name)
    return wrong, saves


def event_kills(trainings: Trainings, events: int | None) -> list[str]:
    """Kill at each file event of one save, or at ``events`` of them, evenly spread; each restarted
    and run to its end.
    """
    seen, wrong, of_save = trainings.folder / "events.txt", [], 5
    trainings.start("events", lambda: at_event(0, of_save, seen))
    names = seen.read_text().split("\n")
    count = len(names) if events is None else events
    chosen = sorted({1 + round(i * (len(names) - 1) / max(1, count - 1)) for i in range(count)})
    print(f"  save {of_save} has {len(names)} file events: {', '.join(dict.fromkeys(names))}")
    for number in chosen:
        name = f"event {number}"
        what = f"killed at {name} of {len(names)} of a save, before: {names[number - 1]}"
        if trainings.kill(name, what, lambda number=number: at_event(number, of_save)) is None:
            wrong.append(f"{name} was not killed")
        wrong += trainings.finish(name)
    return wrong


def boundary_kills(trainings: Trainings) -> list[str]:
    """Kill where one epoch ends and the next begins."""
    wrong = []
    for name in ("on_train_batch_end", "on_train_epoch_end", "on_train_epoch_start"):
        what = f"killed at the border of two epochs, in {name}"
        if trainings.kill(name, what, lambda name=name: at_hook(name)) is None:
            wrong.append(f"{name} was not killed")
        wrong += trainings.finish(name)
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--kills", type=int, default=20, help="at random moments")
    parser.add_argument("--events", type=int, help="of one save, evenly spread; all by default")
    parser.add_argument("--no-borders", action="store_true", help="leave out the borders of epochs")
    parser.add_argument("--steps", type=int, default=60, help="of each training killed at random")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1", "WANDB_MODE": "offline"}
    import_module("tfzoo.training.train")  # what takes seconds to import is there before each fork

    wrong: list[str] = []
    shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with (
        tempfile.TemporaryDirectory(prefix="tfzoo-kill-") as place,
        tempfile.TemporaryDirectory(prefix="tfzoo-kill-", dir=shared) as temporary,
    ):
        folder = Path(place)
        os.environ |= {"TMPDIR": temporary, "TFZOO_CACHE": str(folder / "cache")}
        same = Path(temporary).stat().st_dev == folder.stat().st_dev
        print(f"seed {options.seed}; TMPDIR on the same file system as the runs: {same}")
        draw = random.Random(options.seed)
        for processes in options.processes:
            begun, saves = time.monotonic(), 0
            print(f"{processes} process{'es' if processes > 1 else ''}", flush=True)
            trainings = Trainings(folder, processes, options.steps)
            print(f"  undisturbed: {trainings.seconds:.2f} s, {options.steps} steps", flush=True)
            if options.kills:
                found, saves = random_kills(trainings, options.kills, draw)
                wrong += found
            shorter = Trainings(folder, processes, 24)
            if options.events != 0:
                wrong += event_kills(shorter, options.events)
            if not options.no_borders:
                wrong += boundary_kills(shorter)
            seconds = time.monotonic() - begun
            print(f"  {options.kills} random kills, {saves} in a save; {seconds:.0f} s", flush=True)
    same_bits = "all equal to the undisturbed training, bit for bit"
    print("\n".join(f"NOT EQUAL: {line}" for line in wrong) or same_bits)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
