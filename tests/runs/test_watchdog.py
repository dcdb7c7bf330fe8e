"""A training whose processes die, hang or are told to stop ends, leaves nothing behind and says
why: real processes, real signals.
"""

import sys
import time
from types import SimpleNamespace

import pytest

from benchmarks.faults import FAULTS, TIMEOUT
from tfzoo.training.watchdog import Heartbeats, Watchdog, named

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

ENDS = {
    "process 1 killed": (1, 60, "rank 1 was killed by SIGKILL"),
    "process 0 killed": (-9, 60, "rank 0"),
    "process 1 fails": (1, 60, "rank 1"),
    "process 1 stopped": (1, TIMEOUT + 15, f"rank 1 hung: no sign of life for {TIMEOUT} seconds"),
    "process 0 stopped": (-9, TIMEOUT + 15, "rank 0 hung"),
    "process 1 sleeps": (1, TIMEOUT + 15, f"rank 1 hung: no progress for {TIMEOUT} seconds"),
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


def heartbeats(rank, world, places):
    """One that has heard of these places an hour ago, and was answered just now."""
    made = Heartbeats.__new__(Heartbeats)
    made.rank, made.world_size, made.message = rank, world, ""
    made.records = {one: ["1", str(place), "1", "here", "1", ""] for one, place in places.items()}
    made.last_seen = dict.fromkeys(places, time.monotonic())
    made.last_answer = time.monotonic()
    made.last_progress = time.monotonic() - 3600
    return made


def test_who_is_furthest_behind_is_who_the_others_wait_for():
    assert heartbeats(0, 3, {0: 37, 1: 36, 2: 37}).stalled(20) == [1]
    assert heartbeats(0, 3, {0: 37, 1: 37}).stalled(20) == [], "not all have spoken yet"
    assert heartbeats(0, 2, {0: 37, 1: 36}).stalled(7200) == []
    assert heartbeats(0, 2, {0: 37, 1: 36}).position(1) == "in batch 8, forward"


def test_a_process_without_a_sign_of_life_hangs_unless_it_was_ourselves_who_slept():
    made = heartbeats(0, 2, {0: 1, 1: 1})
    assert made.lost(20) == []
    made.last_seen[1] -= 30
    assert made.lost(20) == [1]
    made.last_answer -= 15
    assert made.lost(20) == []
    other = heartbeats(1, 2, {0: 1, 1: 1})
    other.last_answer -= 30
    assert other.lost(20) == [0], "the store lives in process 0"


def watch(*codes):
    made = Watchdog(20, lambda text: None)
    made.trainer = SimpleNamespace(world_size=len(codes) + 1)
    made.children = [SimpleNamespace(poll=lambda code=code: code) for code in codes]
    return made


def test_a_lost_process_is_told_by_how_it_ended_and_its_last_error():
    lost = RuntimeError("[pair.cc:553] Connection closed by peer (gloo)")
    assert watch(None, -9).cause(lost) == "rank 2 was killed by SIGKILL"
    failed = watch(1)
    failed.errors[1] = "ValueError: no"
    assert failed.cause(lost) == "rank 1 ended with exit code 1; its last error: ValueError: no"
    assert watch(-9).cause(ValueError("our own")) == ""
    assert watch().cause(lost) == "", "there was no other process"
    second_machine = watch(-9)
    second_machine.first = 4
    assert second_machine.cause(lost) == "rank 5 was killed by SIGKILL"


def test_a_training_of_one_process_that_fails_waits_for_no_other():
    started = time.monotonic()
    alone = SimpleNamespace(world_size=1, global_rank=0)
    Watchdog(20, lambda text: None).on_exception(alone, alone, ValueError("no"))
    assert time.monotonic() - started < 10


def test_many_ranks_are_not_all_listed():
    assert named([1]) == "rank 1"
    assert named([1, 2, 3, 4, 5]) == "rank 1, rank 2, rank 3 and 2 more"
