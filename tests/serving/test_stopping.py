"""``tfzoo serve`` in a process of its own: a signal lets it answer, and ends it."""

import io
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout

from tests import forked
from tests.results import saved
from tests.serving.running import Client
from tests.tasks.test_attention import translator
from tests.waiting import soon
from tfzoo.commands import predict

load = predict.load_task


def slow_task(*args):
    """The task of a run whose layers take their time."""
    task = load(*args)
    for module in task.model.modules():
        if type(module).__name__ == "TransformerLayer":
            module.register_forward_pre_hook(lambda *_: time.sleep(0.02))
    return task


def served(number):
    """Exit code, statuses and output of a server that gets a signal during two requests."""
    from tfzoo.commands.main import main

    out, err, statuses = io.StringIO(), io.StringIO(), []

    def clients():
        soon(lambda: "Ctrl-C" in out.getvalue())
        client = Client(int(out.getvalue().split()[0].rpartition(":")[2]))
        soon(lambda: answers(client))
        with ThreadPoolExecutor(2) as threads:
            found = [threads.submit(client.ask, "/predict", {"text": "a"}) for _ in range(2)]
            soon(lambda: client.requests() == 2)
            os.kill(os.getpid(), number)
            statuses.extend(one.result().status for one in found)

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell starts what runs in the background
    predict.load_task = slow_task
    with redirect_stdout(out), redirect_stderr(err):
        asking = threading.Thread(target=clients, daemon=True)
        asking.start()
        code = main(["serve", "numbers.ckpt", "--port", "0", "--device", "cpu"])
        asking.join(20)
    return code, statuses, out.getvalue(), err.getvalue()


def answers(client):
    try:
        return client.ask("/health").status == 200
    except ConnectionRefusedError:
        return False


@forked.requires_fork
def test_a_signal_ends_the_server_after_its_answers(own_folder):
    saved(translator(), own_folder / "numbers.ckpt")
    both = forked.together(served, [(int(signal.SIGINT),), (int(signal.SIGTERM),)])
    for (code, statuses, out, err), wanted in zip(both, (130, 0), strict=True):
        assert (code, statuses) == (wanted, [200, 200]), err
        assert out.startswith("http://127.0.0.1:")
        assert "Traceback" not in err
