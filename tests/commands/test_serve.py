"""``tfzoo serve`` refuses in one line what it cannot serve."""

import socket

import pytest

from tfzoo.commands.main import main


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "RUN is missing: tfzoo serve"),
        (["numbers.ckpt", "--port", "70000"], "port 70000: bind(): port must be 0-65535"),
        (["numbers.ckpt", "--max-texts", "0"], "--max-texts 0 must be above 0"),
        (["numbers.ckpt", "--max-seconds", "nan"], "--max-seconds nan must be above 0"),
        (["numbers.ckpt", "--host", "192.0.2.1"], "cannot listen on 192.0.2.1, port 8000: "),
        (["numbers.ckpt", "--port", "TAKEN"], "; --port 0 takes a free port"),
    ],
)
def test_a_mistake_is_one_line(words, message, two_runs, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert main(["serve", *(port if word == "TAKEN" else word for word in words)]) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert message in said
