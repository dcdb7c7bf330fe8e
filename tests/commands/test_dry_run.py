"""``fit --dry-run`` says what a training takes, and leaves nothing behind."""

import pytest

from tests.results import summary
from tests.tiny import numbers
from tfzoo.commands.main import main
from tfzoo.training import train

TINY = ("translation/numbers", *numbers(train=400, val=4, test=4, length=0.1))


pytestmark = pytest.mark.usefixtures("no_pictures")


@pytest.fixture(autouse=True)
def printed(monkeypatch):
    """The rows of the last table."""
    rows = {}
    monkeypatch.setattr(train, "print_table", lambda table, title: rows.update(table))
    return rows


def test_it_says_the_sizes_of_the_training_and_leaves_nothing_behind(own_folder, printed):
    assert main(["fit", *TINY, "--trainer.max_steps", "10", "--dry-run"]) == 0
    assert not list(own_folder.iterdir())
    assert main(["fit", *TINY, "--trainer.max_steps", "10", "--run", "run"]) == 0
    fit = summary("run")["fit"]
    assert printed["parameters"] == f"{fit['parameters']:,}"
    assert printed["steps"] == str(fit["steps"])
    assert "MB at the peak: parameters " in printed["memory of a step"]


def test_a_step_takes_the_time_of_its_batches(monkeypatch):
    """The first three are not timed."""
    stopwatch = train.Stopwatch()
    stopwatch.ends = [0.0, 50.0, 55.0, 60.0, 60.5, 61.5]
    assert stopwatch.seconds() == pytest.approx(0.75)
    stopwatch.ends = [0.0, 5.0]
    assert stopwatch.seconds() == 5.0


def test_a_training_of_unknown_length_has_a_time_a_step(own_folder, monkeypatch, printed):
    monkeypatch.setattr(train, "MAX_SECONDS", 0.2)
    endless = ("--trainer.max_steps", "-1", "--trainer.max_epochs", "-1")
    assert main(["fit", *TINY, *endless, "--dry-run"]) == 0
    assert printed["steps"] == "until it is stopped"
    assert printed["time"].endswith("s a step; validation comes on top")
