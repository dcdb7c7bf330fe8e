"""One writer a folder: who holds it, who is let in, and what becomes of a holder that has died."""

import fcntl
import os
import shutil
import signal
import sys
import threading
import time
from contextlib import contextmanager, suppress

import pytest

from tfzoo.runs import lock
from tfzoo.runs.lock import Held, holding

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="forks")


AT_ONCE = 10.0
"""Fewer seconds than a lease, and more than a busy machine takes."""


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(lock, "BEAT", 0.1)
    monkeypatch.setattr(lock, "MOMENT", 0.05)


@pytest.fixture
def short_lease(monkeypatch):
    """One second, not a minute: for tests that wait for its end."""
    monkeypatch.setattr(lock, "LEASE", 1.0)


def forked(act):
    """A process that does something; its number, and the one that it tells when it is under way."""
    ready, told = os.pipe()
    child = os.fork()
    if not child:
        with suppress(BaseException):
            act(lambda number: os.write(told, b"%10d" % number))
            time.sleep(60)
        os._exit(0)
    number = int(os.read(ready, 10))
    os.close(ready)
    os.close(told)
    return child, number


def holder(folder):
    """The number of a process that holds a folder for a minute."""

    def hold(tell):
        with holding(folder):
            tell(0)
            time.sleep(60)

    return forked(hold)[0]


@contextmanager
def process(folder):
    """A process that holds a folder until it is killed; its number."""

    child = holder(folder)
    try:
        yield child
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def rename_host(folder):
    """Let the lease name another host, without a sign of life."""
    path = folder / "lock.owner"
    here = next(line for line in path.read_text().splitlines() if line.startswith("host="))
    times = path.stat()
    with path.open("r+") as stream:
        text = stream.read().replace(here, "host=elsewhere")
        stream.seek(0)
        stream.truncate()
        stream.write(text)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def test_the_second_is_told_the_host_and_the_process_of_the_first(tmp_path):
    with process(tmp_path) as child:
        began = time.monotonic()
        with pytest.raises(Held) as refused, holding(tmp_path):
            pass
        assert time.monotonic() - began < AT_ONCE
    assert str(refused.value) == (
        f"{tmp_path} is in use by process {child} on {os.uname().nodename}: wait until it has "
        "ended, or name another folder with --run"
    )


def test_a_process_that_was_killed_is_succeeded_at_once(tmp_path):
    with process(tmp_path):
        pass
    assert (tmp_path / "lock.owner").exists()
    began = time.monotonic()
    with holding(tmp_path):
        assert time.monotonic() - began < AT_ONCE
    assert [*tmp_path.iterdir()] == []


def test_a_copy_of_a_folder_that_is_in_use_is_free(tmp_path):
    (tmp_path / "run").mkdir()
    with process(tmp_path / "run"):
        shutil.copytree(tmp_path / "run", tmp_path / "copy")
        began = time.monotonic()
        with holding(tmp_path / "copy"):
            assert time.monotonic() - began < AT_ONCE
        with pytest.raises(Held), holding(tmp_path / "run"):
            pass


def test_workers_that_a_killed_process_left_do_not_keep_its_folder(tmp_path):
    def hold(tell):
        with holding(tmp_path):
            if worker := os.fork():
                tell(worker)
            time.sleep(60)

    child, worker = forked(hold)
    try:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        began = time.monotonic()
        with holding(tmp_path):
            assert time.monotonic() - began < AT_ONCE
    finally:
        os.kill(worker, signal.SIGKILL)


@pytest.mark.usefixtures("short_lease")
def test_a_holder_on_another_host_is_succeeded_after_its_lease(tmp_path, capsys):
    with process(tmp_path) as child:
        pass
    rename_host(tmp_path)
    began = time.monotonic()
    with holding(tmp_path):
        assert 0.9 < time.monotonic() - began < AT_ONCE
    assert f"last in use by process {child} on elsewhere; waiting" in capsys.readouterr().err


def test_a_holder_on_another_host_that_gives_a_sign_of_life_keeps_its_folder(tmp_path):
    """Also where the file system passes no locks on from one host to another."""
    with process(tmp_path):
        pass
    rename_host(tmp_path)
    beats = threading.Timer(0.1, os.utime, [tmp_path / "lock.owner"])
    beats.start()
    began = time.monotonic()
    with pytest.raises(Held, match="on elsewhere"), holding(tmp_path):
        pass
    assert time.monotonic() - began < AT_ONCE


@pytest.mark.usefixtures("short_lease")
def test_a_file_server_that_keeps_the_lock_of_a_dead_host_is_waited_for(tmp_path):
    with process(tmp_path):
        pass
    rename_host(tmp_path)
    kept = os.open(tmp_path / "lock", os.O_RDWR)
    fcntl.flock(kept, fcntl.LOCK_EX)
    threading.Timer(0.3, os.close, [kept]).start()
    began = time.monotonic()
    with holding(tmp_path):
        assert time.monotonic() - began >= 0.3


def test_a_process_that_the_holder_starts_is_let_in(tmp_path, monkeypatch):
    with holding(tmp_path) as passed:
        monkeypatch.setenv(lock.PASSED, passed)
        with holding(tmp_path) as again:
            assert again == passed
        monkeypatch.setenv(lock.PASSED, "of another folder")
        with pytest.raises(Held), holding(tmp_path):
            pass


def test_a_process_that_lost_its_folder_ends(tmp_path):
    """It was paused for longer than its lease, and another one took the folder."""

    child = holder(tmp_path)
    owner = tmp_path / "lock.owner"
    (tmp_path / "new").write_text(owner.read_text())
    os.replace(tmp_path / "new", owner)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
