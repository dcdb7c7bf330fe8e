"""Clients that are slow, many or hostile, and a model that is stuck, stop neither the server nor
each other.
"""

import json
import logging
import os
import select
import signal
import socket
import time
from contextlib import ExitStack, suppress
from multiprocessing import active_children
from types import SimpleNamespace

import pytest

from tests.serving.running import serving
from tests.tasks.test_attention import translator
from tests.waiting import soon
from tfzoo.models.transformer_layer import TransformerLayer
from tfzoo.serving import log, server, worker

HALF = b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Slow: "


@pytest.fixture(scope="module")
def client():
    with serving(translator(), connections=6) as client:
        yield client


def opened(client, sent=b""):
    made = socket.create_connection(("127.0.0.1", client.port), timeout=20)
    made.sendall(sent)
    return made


def heard(made):
    """All that comes until the connection is closed."""
    found = b""
    try:
        while more := made.recv(2**16):
            found += more
    except ConnectionResetError:
        pass
    return found


def error_of(answer):
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"content-type: application/json" in head.lower(), answer
    said = json.loads(body)
    assert list(said) == ["error"]
    return str(said["error"])


def test_headers_have_a_limit_of_time(client, monkeypatch):
    monkeypatch.setattr(server, "HEADERS", 0.2)
    with opened(client, HALF) as slow, opened(client) as silent:
        for _ in range(3):  # a byte now and then does not prolong it
            time.sleep(0.05)
            slow.sendall(b"x")
        answer = heard(slow)
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert error_of(answer) == "the headers took longer than 0.2 seconds"
        assert heard(silent) == b""


def test_many_half_open_connections_do_not_stop_the_others(client):
    with ExitStack() as stack:
        for _ in range(40):
            stack.enter_context(opened(client, HALF))
            assert client.ask("/health").status == 200


def test_where_all_connections_ask_one_more_is_told_to_come_back(client):
    asking = b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 13\r\n\r\n"
    with ExitStack() as stack:
        made = []
        told = []

        def is_told():
            made.append(stack.enter_context(opened(client, asking)))
            for one in select.select(made, [], [], 0.03)[0]:
                made.remove(one)
                if answer := heard(one):  # nothing where the reset of the connection was faster
                    told.append(error_of(answer))
            return bool(told)

        soon(is_told)
        assert set(told) == {"too many connections; try again later"}
    soon(lambda: answered(client))


def answered(client):
    with suppress(OSError):
        return client.ask("/translate", {"text": "a"}).status == 200
    return False


def test_every_error_is_json(client):
    wrong_host = client.ask("/health", headers={"Host": "example.org"})
    assert (wrong_host.status, wrong_host.error) == (
        400,
        "the header Host does not name this server",
    )
    for sent in (b"\x16\x03\x01\r\n\r\n", b"GET /\r\n\r\n", b"GET / HTTP/1.1\r\nno colon\r\n\r\n"):
        with opened(client, sent) as made:
            answer = heard(made)
            assert answer.startswith(b"HTTP/1.1 400 ")
            assert error_of(answer) == "this is no HTTP request"


def test_head_is_get_without_the_body(client):
    for path in ("/", "/health", "/openapi.json"):
        asked, answer = client.ask(path), client.ask(path, method="HEAD")
        assert (answer.status, answer.text) == (200, "")
        assert answer.headers["content-type"] == asked.headers["content-type"]
        assert answer.headers["content-length"] == asked.headers["content-length"]
    assert client.ask("/translate", method="HEAD").status == 405


def stuck_once(task):
    """The first layer of the first request never ends."""
    (first, *_) = [one for one in task.model.modules() if isinstance(one, TransformerLayer)]

    def sleep(*_):
        if not os.path.exists("was_stuck"):
            open("was_stuck", "x").close()
            time.sleep(1000)

    first.register_forward_pre_hook(sleep)


def test_a_model_that_is_stuck_is_ended_and_started_again(own_folder, monkeypatch, capsys):
    monkeypatch.setattr(worker, "GRACE", 0.1)
    with serving(translator(), prepare=stuck_once, seconds=0.5) as client:
        began = time.monotonic()
        stuck = client.ask("/translate", {"text": "a"})
        assert (stuck.status, time.monotonic() - began < 10) == (504, True)
        soon(lambda: client.ask("/translate", {"text": "a"}).status == 200)
    assert "does not end and is ended; the next request starts it again" in capsys.readouterr().err


def test_a_process_of_the_model_that_ends_is_started_again():
    before = set(active_children())
    with serving(translator()) as client:
        (model,) = set(active_children()) - before
        os.kill(model.pid or 0, signal.SIGKILL)
        ended = client.ask("/translate", {"text": "a"})
        assert (ended.status, ended.error) == (
            500,
            "the process of the model has ended; it is started again",
        )
        assert client.ask("/translate", {"text": "a"}).status == 200


def test_what_is_printed_cannot_fill_a_disk(monkeypatch, capsys):
    now = 1000.0  # however long this takes
    # its own clock: with that of the process, the server would wait for ever
    monkeypatch.setattr(log, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(log, "note", log.Log())
    with log.bounded():
        for number in range(20_000):
            logging.getLogger("uvicorn.error").warning("line %d\nanother\n%s", number, "x" * 999)
            logging.getLogger("asyncio").error("x" * 999, exc_info=OSError(24, "y"))
    printed = capsys.readouterr().err
    lines = printed.splitlines()
    assert log.BURST <= len(lines) <= log.BURST + 20
    assert max(map(len, lines)) <= log.LONGEST + 10
    assert lines[0] == "tfzoo: line 0"
    log.note.last -= 10
    log.note("after")
    assert capsys.readouterr().err.splitlines() == [
        f"... {40_000 - len(lines):,} more lines",
        "after",
    ]
