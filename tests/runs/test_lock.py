"""One writer a folder: who holds it, who is let in, and what becomes of a holder that has died."""

import os
import signal
import sys
import time
from contextlib import contextmanager, suppress

import pytest

from tfzoo.commands.main import main
from tfzoo.runs.folder import PASSED, Held, holding

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="forks")


AT_ONCE = 10.0
"""More seconds than a busy machine takes."""


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


def test_a_process_that_the_holder_starts_is_let_in(tmp_path, monkeypatch):
    with holding(tmp_path) as passed:
        monkeypatch.setenv(PASSED, passed)
        with holding(tmp_path) as again:
            assert again == passed
        monkeypatch.setenv(PASSED, "of another folder")
        with pytest.raises(Held), holding(tmp_path):
            pass


def test_a_training_leaves_a_folder_that_is_in_use_as_it_is(own_folder, capsys):
    run = own_folder / "run"
    run.mkdir()
    with process(run) as child:
        assert main(["fit", "translation/numbers", "--run", "run"]) == 2
    assert f"is in use by process {child} on {os.uname().nodename}" in capsys.readouterr().err
    assert {path.name for path in run.iterdir()} == {"lock", "lock.owner"}
