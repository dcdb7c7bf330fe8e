"""A training whose processes die, hang or are told to stop ends, leaves nothing behind and says
why: real processes, real signals.
"""

import sys
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from benchmarks.faults import FAULTS, TIMEOUT
from tfzoo.base import terminal
from tfzoo.errors import BadData
from tfzoo.training.train import TrainingRun
from tfzoo.training.watchdog import Watchdog

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

ENDS = {
    "process 1 killed": (1, 60, "rank 1 was killed by SIGKILL"),
    "process 0 killed": (-9, 60, "rank 0"),
    "process 1 fails": (1, 60, "rank 1"),
    "process 1 stopped": (1, TIMEOUT + 25, f"rank 1 hung: no sign of life for {TIMEOUT} seconds"),
    "process 0 stopped": (-9, TIMEOUT + 45, "rank 0"),
    "process 1 sleeps": (1, TIMEOUT + 25, f"rank 1 hung: no sign of life for {TIMEOUT} seconds"),
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
start) and words of the last six lines.
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


def watch(*codes, hung=""):
    made = Watchdog(20, Mock(missing=lambda seconds: hung), lambda text: None)
    made.trainer = SimpleNamespace(world_size=len(codes) + 1, local_rank=0, node_rank=0)
    made.trainer.num_devices, made.trainer.strategy = 4, SimpleNamespace(launcher=None)
    made.children = [Mock(poll=lambda code=code: code) for code in codes]
    return made


def test_a_lost_process_is_named_by_how_it_ended():
    lost = RuntimeError("[pair.cc:553] Connection closed by peer (gloo)")
    assert watch(None, -9).cause(lost) == "rank 2 was killed by SIGKILL"
    assert watch(1).cause(lost) == "rank 1 ended with exit code 1"
    assert watch(-9).cause(ValueError("our own")) == ""
    assert watch().cause(lost) == "", "there was no other process"
    second_machine = watch(-9)
    second_machine.trainer.node_rank = 1
    assert second_machine.cause(lost) == "rank 5 was killed by SIGKILL"


def test_a_process_that_does_not_answer_is_named_and_ended():
    stopped = watch(None, hung="rank 1")
    late = RuntimeError("[gloo] Timed out waiting 20000ms for recv operation to complete")
    assert stopped.cause(late) == "rank 1 hung: no sign of life for 20 seconds"
    assert stopped.children[0].kill.called


def test_what_a_rank_above_0_refuses_in_training_is_said_with_its_rank(monkeypatch, capsys):
    """By torchrun alone nothing would be known of it but an exit code."""
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setattr(terminal.time, "sleep", lambda seconds: None)

    def refuse(*args, **options):
        raise BadData("train.tsv, line 4: no tab")

    trainer = SimpleNamespace(loggers=[], fit=refuse, global_step=0)
    run: Any = SimpleNamespace(
        **{"resume_from": "x", "trainer": trainer, "config": SimpleNamespace(start=None)},
        **{"watchdog": Mock(), "task": None, "data": None},
    )
    assert TrainingRun._fit(run) == 2
    assert capsys.readouterr().err == "tfzoo: rank 3: train.tsv, line 4: no tab\n"
