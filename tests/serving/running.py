"""A server in a thread, and its clients."""

import http.client
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from tfzoo.serving import Limits, server
from tfzoo.serving.app import make_app

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


@contextmanager
def serving(
    task: Any,
    run: str = "runs/toy/1",
    prepare: Callable[[Any], object] = lambda task: None,
    **limits: Any,
) -> Iterator[Client]:
    chosen = Limits(**limits)
    served = deepcopy(task)
    prepare(served)
    with server.listen("127.0.0.1", 0) as bound:
        app = make_app(served, run, chosen, server.hosts_of(bound, "127.0.0.1"))
        running = server.make_server(app, chosen)
        thread = threading.Thread(target=running.run, kwargs={"sockets": [bound]}, daemon=True)
        thread.start()
        try:
            yield Client(bound.getsockname()[1])
        finally:
            running.should_exit = True
            thread.join(20)
