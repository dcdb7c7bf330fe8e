"""Processes that die, hang or are told to stop end training, which says why."""

import io
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from benchmarks.faults import FAULTS, TIMEOUT
from tfzoo.base import terminal
from tfzoo.commands.main import main
from tfzoo.errors import BadData
from tfzoo.training import processes as module
from tfzoo.training.processes import Processes
from tfzoo.training.train import TrainingRun

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

HUNG = f"rank 1 is gone: it was killed, has failed, or has hung for {TIMEOUT} seconds"
ENDS = {
    "process 1 killed": (1, 60, "rank 1 is gone: it was killed"),
    "process 0 killed": (-9, 60, "rank 0"),
    "process 1 fails": (1, 60, "rank 1"),
    "process 1 stopped": (1, TIMEOUT + 5 + 60, HUNG),
    "process 0 stopped": (-9, TIMEOUT + 30 + 60, "rank 0"),
    "process 1 sleeps": (1, TIMEOUT + 5 + 60, HUNG),
    "SIGTERM to process 0": (75, None, "stopped by a signal"),
    "SIGTERM to process 1": (75, None, "stopped by a signal"),
    "SIGTERM to all": (75, None, "stopped by a signal"),
    "SIGUSR1 to all": (75, None, "stopped by a signal"),
    "SIGUSR1 under SLURM": (75, None, "requeue 77"),
    "Ctrl-C": (130, None, ""),
    "Ctrl-C twice": (130, None, ""),
    "process 1 killed under torchrun": (1, 60, "rank"),
}
"""Exit code, seconds at most (None: ten, or on a busy machine as many as the training took to
start) and words of the last six lines. A process that hangs is waited for until the timeout, and
then asked once more (for 5 seconds by rank 0, for 30 by others); 60 more are a busy machine's.
"""


@pytest.mark.nightly
@pytest.mark.parametrize("fault", ENDS)
def test_a_fault_ends_training_in_time_and_is_named(fault, tmp_path):
    code, seconds, words = ENDS[fault]
    outcome = FAULTS[fault](tmp_path)
    assert outcome.code == code, outcome.said
    assert outcome.left == 0, "processes were left"
    assert outcome.seconds < (seconds or outcome.allowed)
    assert any(words in line for line in outcome.said[-6:]), outcome.said[-12:]
    if code in (75, 130) and "twice" not in fault:
        assert outcome.step, "no checkpoint"


def test_all_faults_are_tested():
    assert FAULTS.keys() == ENDS.keys()


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(module, "MOMENT", 0.0)


def cause(error, lost="", world_size=2, codes=()):
    processes = Processes(20)
    assert processes.parent == os.getppid()
    launcher = Mock(procs=[Mock(poll=Mock(return_value=code)) for code in codes])
    processes.lost = lambda: lost  # type: ignore[method-assign]
    trainer: Any = SimpleNamespace(
        world_size=world_size, global_rank=0, strategy=SimpleNamespace(launcher=launcher)
    )
    return processes.cause(error, trainer), launcher.kill.called


def test_a_process_that_does_not_answer_is_named_and_the_others_are_ended():
    late = RuntimeError("[gloo] Timed out waiting 20000ms for recv operation to complete")
    said = "rank 1 is gone: it was killed, has failed, or has hung for 20 seconds"
    assert cause(late, "rank 1") == (said, True)
    assert cause(late, codes=[-9]) == (said, True), "it has ended"
    assert cause(ValueError("our own"), "rank 1") == ("", False)
    assert cause(late, world_size=1) == ("", False), "there was no other process"


def test_what_a_rank_above_0_refuses_in_training_is_said_with_its_rank(monkeypatch, capsys):
    """By torchrun alone nothing would be known of it but an exit code."""
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setattr(terminal.time, "sleep", lambda seconds: None)

    def refuse(*args, **options):
        raise BadData("train.tsv, line 4: no tab")

    trainer = SimpleNamespace(loggers=[], fit=refuse, global_step=0)
    run: Any = SimpleNamespace(
        **{"resume_from": "x", "trainer": trainer, "config": SimpleNamespace(start=None)},
        **{"task": None, "data": None},
    )
    assert TrainingRun._fit(run) == 2
    assert capsys.readouterr().err == "tfzoo: rank 3: train.tsv, line 4: no tab\n"


SCRIPT = Path(__file__).parents[2] / "benchmarks" / "kill.py"


@pytest.mark.nightly
def test_trainings_killed_anywhere_end_with_the_weights_of_undisturbed_ones():
    """With one process and two."""
    ran = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "all equal to the undisturbed training, bit for bit" in ran.stdout


def printed(command, screen):
    """The lines that a command prints on stdout and stderr."""
    with redirect_stdout(screen), redirect_stderr(screen):
        main(command.split())
    return screen.getvalue().splitlines()


def test_a_refusal_of_another_rank_than_0_names_it(monkeypatch):
    """Rank 0 prints its own; another one, which its launcher has not ended since, too."""
    waited = []
    monkeypatch.setattr(terminal.time, "sleep", waited.append)
    assert printed("show norm/nothing", io.StringIO())[0].startswith("tfzoo: ")
    assert waited == []
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("LOCAL_RANK", "1")
    line = printed("show norm/nothing", io.StringIO())[0]
    assert line.startswith("tfzoo: rank 3: ")
    assert waited == [terminal.SECONDS_TO_BE_ENDED + 1]
