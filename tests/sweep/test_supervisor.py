"""Real processes: nothing of a command outlives whoever started it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tfzoo.sweep.run import supervisor

SUPERVISOR = [sys.executable, "-I", "-S", supervisor.__file__]
DRIVER = (
    "import subprocess, sys, time;"
    "subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, process_group=0); time.sleep(100)"
)
FAMILY = "sleep 1000 & echo $! > {0}/worker; echo $$ > {0}/command; wait"


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def number(path):
    end = time.monotonic() + 20
    while not (path.is_file() and path.read_text().strip()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return int(path.read_text())


def gone(*pids):
    end = time.monotonic() + 20
    while any(map(alive, pids)) and time.monotonic() < end:
        time.sleep(0.01)
    return not any(map(alive, pids))


def test_the_command_and_its_workers_end_with_a_driver_that_is_killed(tmp_path):
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, *SUPERVISOR, "sh", "-c", FAMILY.format(tmp_path)]
    )
    family = number(tmp_path / "worker"), number(tmp_path / "command")
    assert all(map(alive, family))
    driver.kill()
    driver.wait()
    assert gone(*family)


def test_the_command_ends_with_a_supervisor_that_is_killed(tmp_path):
    watched = subprocess.Popen(
        [*SUPERVISOR, "sh", "-c", FAMILY.format(tmp_path)], stdin=subprocess.PIPE, process_group=0
    )
    command = number(tmp_path / "command")
    watched.kill()
    watched.wait()
    try:
        assert gone(command)
    finally:
        os.kill(number(tmp_path / "worker"), signal.SIGKILL)


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 75", 75), ("kill -9 $$", -9), ("kill -ABRT $$", -6)]
)
def test_it_ends_as_the_command_did(script, code):
    watched = subprocess.Popen(
        [*SUPERVISOR, "sh", "-c", f"ulimit -c 0; {script}"], stdin=subprocess.PIPE, process_group=0
    )
    assert watched.wait(20) == code


def test_a_signal_reaches_the_command(tmp_path):
    script = f"trap 'exit 75' TERM; echo $$ > {tmp_path}/command; while :; do sleep 0.05; done"
    watched = subprocess.Popen(
        [*SUPERVISOR, "sh", "-c", script], stdin=subprocess.PIPE, process_group=0
    )
    number(tmp_path / "command")
    watched.terminate()
    assert watched.wait(20) == 75
