"""A server in a thread, and its clients."""

import http.client
import io
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import forkserver, get_context
from typing import Any

import torch

from tests.waiting import soon
from tfzoo.serving import server
from tfzoo.serving.app import make_app
from tfzoo.serving.limits import Limits
from tfzoo.serving.worker import METHOD, Worker

JSON = {"Content-Type": "application/json"}


@dataclass
class Answer:
    status: int
    headers: http.client.HTTPMessage
    text: str

    @property
    def error(self) -> str:
        """The only thing that an error says."""
        said = json.loads(self.text)
        assert list(said) == ["error"]
        assert "\n" not in said["error"]
        return str(said["error"])


@dataclass
class Client:
    port: int

    def ask(
        self, path: str, body: Any = None, headers: dict[str, str] | None = None, method: str = ""
    ) -> Answer:
        """GET, or POST if there is a body; what is no text, bytes or parts is sent as JSON."""
        raw = body is None or isinstance(body, str | bytes | Iterator)
        own, sent = ({}, body) if raw else (JSON, json.dumps(body))
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            way = method or ("GET" if body is None else "POST")
            connection.request(way, path, sent, {**own, **(headers or {})})
            found = connection.getresponse()
            return Answer(found.status, found.headers, found.read().decode())
        finally:
            connection.close()

    def requests(self) -> int:
        """How many requests run or wait."""
        return int(json.loads(self.ask("/health").text)["requests"])


def loaded(kind: Any, saved: bytes, prepare: Callable[[Any], object] | None) -> Any:
    """The task of a checkpoint, in the process of the model."""
    torch.set_num_threads(1)
    task = kind.from_checkpoint(torch.load(io.BytesIO(saved), weights_only=True))
    if prepare is not None:
        prepare(task)
    return task


def loading(task: Any, prepare: Callable[[Any], object] | None = None) -> Callable[[], Any]:
    """What loads a task in another process, where ``prepare`` then changes it."""
    checkpoint, saved = {"state_dict": task.state_dict()}, io.BytesIO()
    task.on_save_checkpoint(checkpoint)
    torch.save(checkpoint, saved)
    if METHOD == "forkserver":  # that of all tests
        get_context(METHOD).set_forkserver_preload(["tests.testing.warm"])
        forkserver.ensure_running()
    return partial(loaded, type(task), saved.getvalue(), prepare)


@contextmanager
def serving(
    task: Any,
    run: str = "runs/toy/1",
    prepare: Callable[[Any], object] | None = None,
    **limits: Any,
) -> Iterator[Client]:
    chosen = Limits(**limits)
    worker = Worker(loading(task, prepare), chosen)
    with server.listen("127.0.0.1", 0) as bound:
        app = make_app(worker, run, chosen, server.hosts_of(bound, "127.0.0.1"))
        running = server.make_server(app, chosen)
        thread = threading.Thread(target=running.run, kwargs={"sockets": [bound]}, daemon=True)
        thread.start()
        try:
            soon(lambda: running.started)
            yield Client(bound.getsockname()[1])
        finally:
            running.should_exit = True
            thread.join(20)
            worker.close()
