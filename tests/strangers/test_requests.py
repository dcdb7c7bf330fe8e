"""No request that a client can send stops a server, or gets anything but one short answer."""

import json
import socket
import time

import pytest

from tests.serving.running import serving
from tests.strangers.requests import REQUESTS
from tests.tasks.test_attention import translator

DAILY = ["zeros", "a chunk beyond", "many headers", "an origin that is none", "deep JSON"]


@pytest.fixture(scope="module")
def client():
    with serving(translator(), bytes=5000, texts=8) as client:
        yield client


def sent(client, data):
    """All that a server answers."""
    found = b""
    with socket.create_connection(("127.0.0.1", client.port), timeout=8) as made:
        try:
            made.sendall(data)
            made.shutdown(socket.SHUT_WR)
            while more := made.recv(2**16):
                found += more
        except (ConnectionResetError, BrokenPipeError):
            pass
    return found


def check(client, name):
    began = time.monotonic()
    answer = sent(client, REQUESTS[name])
    assert time.monotonic() - began < 10
    assert client.ask("/health").status == 200
    head, _, body = answer.partition(b"\r\n\r\n")
    if not answer or body.startswith(b"<!doctype html>"):
        return
    assert b" 200 " not in head.partition(b"\r\n")[0] or b'"status":"ok"' in body
    if b"content-type: application/json" in head.lower():
        said, _ = json.JSONDecoder().raw_decode(body.decode())
        assert "error" in said or said.get("status") == "ok", answer
    assert "Traceback" not in answer.decode("utf-8", "replace")


@pytest.mark.parametrize("name", DAILY)
def test_a_hostile_request_gets_one_answer(name, client):
    check(client, name)


@pytest.mark.nightly
@pytest.mark.parametrize("name", REQUESTS)
def test_every_hostile_request_gets_one_answer(name, client):
    check(client, name)
