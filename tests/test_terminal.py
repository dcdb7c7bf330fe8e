"""What is printed, and by which rank."""

import io
from contextlib import redirect_stderr, redirect_stdout

from tfzoo.base import terminal
from tfzoo.commands.main import main


def printed(command, screen):
    """The lines that a command prints on stdout and stderr."""
    with redirect_stdout(screen), redirect_stderr(screen):
        main(command.split())
    return screen.getvalue().splitlines()


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
