"""Real processes: a training ends as it did, with a signal, and with the sweep that started it."""

import os
import signal
import sys
import time
from contextlib import suppress
from multiprocessing import forkserver
from pathlib import Path

import pytest

from tests.waiting import soon
from tfzoo.sweep.plan.sweep_file import Budget, Cell
from tfzoo.sweep.run import local
from tfzoo.sweep.run.state import Run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

TRAINING = """
import os, signal, subprocess, sys, time
def say(name, value):
    open(f"{name}.tmp", "w").write(str(value))
    os.replace(f"{name}.tmp", name)
def main(words):
    what, *rest = words
    print(what, os.environ["WORD"], sys.stdin.read() == "", os.getpid() == os.getpgid(0))
    if what == "wait":
        say("worker", subprocess.Popen(["sleep", "1000"]).pid)
        say("training", os.getpid())
        time.sleep(100)
    elif what == "stop":
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
        say("training", os.getpid())
        time.sleep(100)
    elif what == "exit":
        return int(rest[0])
    elif what == "kill":
        os.kill(os.getpid(), int(rest[0]))
"""


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def number(path):
    """Of a process that has written it there."""
    return int(soon(lambda: path.is_file() and path.read_text(), 20))


def gone(*pids):
    return soon(lambda: not any(map(alive, pids)), 20)


def begin(folder, *words):
    cell = Cell({}, {}, name="a", recipes={"": {"data": {}}})
    run = Run(cell, 1, folder / "a" / f"seed-{'-'.join(words)}", ("val/loss",), Budget())
    environment = {**os.environ, "WORD": "given", "OMP_NUM_THREADS": "1"}
    return run, local.start(run, ("training", *words), environment, [local.__name__])


@pytest.fixture
def here(own_folder, monkeypatch):
    (own_folder / "training.py").write_text(TRAINING)
    monkeypatch.syspath_prepend(str(own_folder))
    return own_folder


def test_a_training_ends_as_it_did_and_its_folder_says_what_it_came_to(here):
    ends = [("exit", "0"), ("exit", "75"), ("exit", "4"), ("kill", "9"), ("kill", "15")]
    began = [begin(here, *words) for words in ends]
    for _, child in began:
        child.join()
    assert [child.exitcode for _, child in began] == [0, 75, 4, -9, -15]
    states = [run.outcome.state for run, _ in began]
    assert states == ["interrupted", "interrupted", "failed", "interrupted", "interrupted"]
    said = (began[0][0].folder / "output.txt").read_text()
    assert said == "exit given True True\n", (
        "its environment, an empty standard input, a process group of its own"
    )


def test_a_training_and_its_workers_end_with_the_sweep(here):
    sweep = os.fork()
    if not sweep:
        with suppress(BaseException):
            forkserver._forkserver._forkserver_pid = None  # that of the process above
            begin(here, "wait")
            time.sleep(60)
        os._exit(0)
    family = number(Path("worker")), number(Path("training"))
    assert all(map(alive, family))
    os.kill(sweep, signal.SIGKILL)
    os.waitpid(sweep, 0)
    assert gone(*family)
