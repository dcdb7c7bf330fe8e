"""Weights & Biases that refuses, drops or answers errors neither keeps training from starting nor from ending, and loses nothing."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import wandb

from tfzoo.commands.main import main
from tfzoo.tasks.task import Task

TINY = (
    *("--data.dataset.train", "200", "--data.dataset.val", "8", "--data.dataset.test", "8", "--data.dataset.long", "4"),
    *("--model.dim", "16", "--model.layers", "1", "--model.heads", "2", "--search.max_length", "0.2", "--trainer.accelerator", "cpu"),
    *("--trainer.devices", "1", "--trainer.log_every_n_steps", "1", "--trainer.max_steps", "3", "--trainer.logger", "WandbLogger"),
)
VIEWER = {"viewer": {"id": "x", "username": "u", "entity": "e", "flags": "{}", "teams": {"edges": []}}}
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
        query = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode(errors="replace")
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


@pytest.fixture
def host(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A host on this machine that behaves as ``request.param`` says; training runs in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    for name in ("WANDB_MODE", "http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "")  # so that it is afterwards what it was
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("WANDB_API_KEY", "a" * 40)
    if request.param == "refuses":
        with socket.create_server(("127.0.0.1", 0)) as closed:
            port = closed.getsockname()[1]
        monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{port}")
        yield "refuses"
        return
    server = Host(request.param)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{server.server_port}")
    yield request.param
    server.closing.set()
    server.shutdown()
    wandb.teardown()  # its client keeps the address that it was started with


@pytest.mark.parametrize(
    ("host", "says"),
    [
        ("refuses", "Connection refused); its data is kept offline"),
        ("silent", "did not answer in 5 seconds; its data is kept offline"),
        ("errors", "Internal Server Error); its data is kept offline"),
        ("stranger", "does not know this account; its data is kept offline"),
        ("unopened", "its data is kept offline"),
        ("lost", ""),
        ("mute", ""),
    ],
    indirect=["host"],
)
def test_training_starts_ends_and_keeps_its_data(
    host: str, says: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    times: list[float] = []

    def timed(self: Task, *args: Any, step: Any = Task.on_train_batch_end) -> None:
        times.append(time.monotonic())
        step(self, *args)

    monkeypatch.setattr(Task, "on_train_batch_end", timed)
    assert main(["fit", "translation/numbers", "--print_config"]) == 0  # what is imported is not what is measured
    start = time.monotonic()
    assert main(["fit", "translation/numbers", *TINY]) == 0
    assert times[0] - start < 30, "the first step"
    assert time.monotonic() - times[-1] < 30, "the end"
    err = capsys.readouterr().err
    assert says in err
    kept = next(run for run in Path("runs/numbers/1/wandb").glob("*run-*") if f"wandb sync {run}" in err)
    assert next(kept.glob("*.wandb")).stat().st_size > 0
    assert json.loads(Path("runs/numbers/1/summary.json").read_text("utf-8"))["test"]["scores"]
