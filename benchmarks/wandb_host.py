"""A host on this machine that is Weights & Biases as far as it wants to be."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

VIEWER = {
    "viewer": {"id": "x", "username": "u", "entity": "e", "flags": "{}", "teams": {"edges": []}}
}
OPENED = {"id": "1", "name": "abc", "displayName": "d", "sweepName": None, "historyLineCount": 0}
OPENED |= {"project": {"id": "p", "name": "tfzoo", "entity": {"id": "e", "name": "e"}}}


class Host(ThreadingHTTPServer):
    """As much of Weights & Biases as ``mode`` says."""

    daemon_threads = True

    def __init__(self, mode: str) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.mode, self.closing = mode, threading.Event()


class Answers(BaseHTTPRequestHandler):
    server: Host

    def do_POST(self) -> None:
        mode = self.server.mode
        query = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode(
            errors="replace"
        )
        if mode == "silent":
            self.server.closing.wait(120)
        elif "query Viewer" in query and mode != "errors":
            self.reply({"viewer": None} if mode == "stranger" else VIEWER)
        elif "UpsertBucket" in query and mode in ("lost", "mute"):
            name = json.loads(query)["variables"]["name"]
            self.reply({"upsertBucket": {"bucket": {**OPENED, "name": name}, "inserted": True}})
        elif mode == "mute":
            self.server.closing.wait(120)
        else:
            self.send_response(500)
            self.end_headers()

    do_GET = do_PUT = do_POST  # noqa: N815

    def reply(self, data: dict[str, Any]) -> None:
        text = json.dumps({"data": data}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *args: Any) -> None: ...


@contextmanager
def serving(mode: str) -> Iterator[str]:
    """Its address. ``refuses``: nothing listens there. ``silent``: never answers. ``errors``:
    answers 500. ``stranger``: knows no account. ``lost``: opens a run, then answers 500; ``mute``:
    opens a run, then never answers. Anything else: knows the account, opens no run.
    """
    if mode == "refuses":
        with socket.create_server(("127.0.0.1", 0)) as closed:
            port = closed.getsockname()[1]
        yield f"http://127.0.0.1:{port}"
        return
    server = Host(mode)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.closing.set()
        server.shutdown()
