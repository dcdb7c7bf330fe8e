"""Call functions in processes forked from one that has imported tfzoo."""

import contextlib
import multiprocessing
import os
import pickle
import socket
import sys
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import pytest

requires_fork = pytest.mark.skipif(sys.platform == "win32", reason="forks")


def call(function: Callable[..., Any], *args: Any, fresh: bool = False) -> Any:
    """What a function of a module returns in a process of its own, with the working folder and the
    environment of this process; ``fresh``: where nothing of tfzoo has been imported.

    Raises:
        RuntimeError: it raised an error, whose traceback is the message, or its process ended.
    """
    return together(function, [args], fresh=fresh)[0]


def together(
    function: Callable[..., Any], calls: list[tuple[Any, ...]], fresh: bool = False
) -> list[Any]:
    """What each of several calls returns, all at the same time; see :func:`call`."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.testing.warm"])
    running = []
    for args in calls:
        here, there = context.Pipe()
        given = (there, os.getcwd(), dict(os.environ), fresh, function, args)
        process = context.Process(target=_run, args=given)
        process.start()
        there.close()
        running.append((process, here))
    return [_result(process, here) for process, here in running]


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def rank_of_two(rank: int, port: int) -> dict[str, str]:
    """The environment that ``torchrun`` gives one of two processes."""
    master = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    place = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0"}
    return {
        **master,
        **place,
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "TORCHELASTIC_RUN_ID": "forked",
    }


def _result(process: Any, here: Connection) -> Any:
    try:
        returned, result = pickle.loads(here.recv_bytes())
    except EOFError:
        process.join()
        raise RuntimeError(f"the process ended with exit code {process.exitcode}") from None
    process.join()
    if not returned:
        raise RuntimeError(result)
    return result


def _run(
    there: Connection,
    folder: str,
    environment: dict[str, str],
    fresh: bool,
    function: Callable[..., Any],
    args: tuple[Any, ...],
) -> None:
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    if fresh:
        for name in [name for name in sys.modules if name.partition(".")[0] == "tfzoo"]:
            del sys.modules[name]
    with (
        open(os.devnull, "w") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        try:
            sent = pickle.dumps((True, function(*args)))  # tensors by value
        except BaseException:
            sent = pickle.dumps((False, traceback.format_exc()))
        there.send_bytes(sent)
