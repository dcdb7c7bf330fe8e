"""What is printed keeps to the width of the terminal, and is left as it is elsewhere."""

import io
from contextlib import redirect_stderr, redirect_stdout

import pytest

from tests.typed import typed
from tfzoo.base import terminal
from tfzoo.base.terminal import reflow, wrap
from tfzoo.commands.main import main


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def _columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")


def printed(command, screen):
    """The lines that a command prints on stdout and stderr."""
    with redirect_stdout(screen), redirect_stderr(screen):
        main(command.split())
    return screen.getvalue().splitlines()


@pytest.mark.parametrize(
    "command",
    typed(
        "'show mixer gru' 'show position rotary' 'list weighting' fit recipes",
        "--help 'serve --help'",
    ),
)
def test_nothing_is_wider_than_the_terminal(command):
    lines, plain = printed(command, Terminal()), printed(command, io.StringIO())
    assert [line for line in lines if len(line) > 50 and not line.startswith(">>>")] == []
    assert max(map(len, plain)) > 50
    assert " ".join(plain).split() == " ".join(lines).split(), "no word is lost or cut"


def test_what_is_left_of_a_line_stands_below_its_column():
    row = "  softmax  Exponentials that sum to one, over the keys that a query may look at"
    first, *rest = wrap(row, Terminal()).split("\n")
    assert first.startswith("  softmax  Exponentials")
    assert all(line.startswith(" " * 11) and line[11] != " " for line in rest)
    path = "/a/path/that/is/longer/than/the/terminal/and/stays/whole"
    assert path in wrap(f"run: {path} is new", Terminal()).split("\n")
    assert wrap(row, io.StringIO()) == row, "a file and a pipe get the line as it is"


def test_a_configuration_is_printed_as_it_is():
    command = "recipes translation/numbers"
    assert printed(command, Terminal()) == printed(command, io.StringIO())
    assert max(map(len, printed(command, Terminal()))) > 50


def test_a_paragraph_is_one_line_before_it_is_wrapped():
    long = " ".join(["word"] * 17)  # of 84 columns: no other word would have fitted
    text = f"{long}\nmore\n\n  item: {long}\n    and more\n  next: one\nend"
    assert reflow(text) == f"{long} more\n\n  item: {long} and more\n  next: one\nend"


def test_a_refusal_of_another_rank_than_0_names_it(monkeypatch):
    """Rank 0 prints its own; another one, which its launcher has not ended since, too."""
    waited = []
    monkeypatch.setattr(terminal.time, "sleep", waited.append)
    assert printed("show norm/nothing", io.StringIO())[0].startswith("tfzoo: ")
    assert waited == []
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("LOCAL_RANK", "1")
    line = printed("show norm/nothing", io.StringIO())[0]
    assert line.startswith("tfzoo: rank 3: ")
    assert waited == [terminal.SECONDS_TO_BE_ENDED + 1]
