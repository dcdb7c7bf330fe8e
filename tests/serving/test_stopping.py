"""``tfzoo serve`` in a process of its own: a signal lets it answer, and ends it."""

from __future__ import annotations

import io
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
import torch

from tests import forked
from tests.commands.test_attention import saved
from tests.serving.running import Client, wait_for
from tests.tasks.test_attention import translator


def slow(module: torch.nn.Module, args: object) -> None:
    if type(module).__name__ == "TransformerLayer":
        time.sleep(0.02)


def served(number: int) -> tuple[int, list[int], str, str]:
    """The exit code of a server that gets a signal while it has two requests, their statuses, and
    what it printed.
    """
    from tfzoo.commands.main import main

    out, err, statuses = io.StringIO(), io.StringIO(), []

    def clients() -> None:
        wait_for(lambda: "Ctrl-C" in out.getvalue())
        client = Client(int(out.getvalue().split()[0].rpartition(":")[2]))
        wait_for(lambda: answers(client))
        with ThreadPoolExecutor(2) as threads:
            found = [threads.submit(client.ask, "/translate", {"text": "a"}) for _ in range(2)]
            wait_for(lambda: client.requests() == 2)
            os.kill(os.getpid(), number)
            statuses.extend(one.result().status for one in found)

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell starts what runs in the background
    hook = torch.nn.modules.module.register_module_forward_pre_hook(slow)
    with redirect_stdout(out), redirect_stderr(err):
        asking = threading.Thread(target=clients, daemon=True)
        asking.start()
        code = main(["serve", "numbers.ckpt", "--port", "0", "--device", "cpu"])
        asking.join(20)
    hook.remove()
    return code, statuses, out.getvalue(), err.getvalue()


def answers(client: Client) -> bool:
    try:
        return client.ask("/health").status == 200
    except ConnectionRefusedError:
        return False


@forked.requires_fork
def test_a_signal_ends_the_server_after_its_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(translator(), tmp_path / "numbers.ckpt")
    monkeypatch.chdir(tmp_path)
    both = forked.together(served, [(int(signal.SIGINT),), (int(signal.SIGTERM),)])
    for (code, statuses, out, err), wanted in zip(both, (130, 0), strict=True):
        assert (code, statuses) == (wanted, [200, 200]), err
        assert out.startswith("http://127.0.0.1:")
        assert "Traceback" not in err
