"""``fit --dry-run`` says what a training takes, and leaves nothing behind."""

import pytest

from tests.results import summary
from tests.tiny import numbers
from tfzoo.commands.main import main
from tfzoo.training import dry_run

TINY = ("translation/numbers", *numbers(train=400, val=4, test=4, length=0.1))


pytestmark = pytest.mark.usefixtures("no_pictures")


@pytest.fixture
def compare(own_folder, monkeypatch):
    """Estimates a training and runs it, if it gets a folder: the estimate, and the summary."""
    monkeypatch.setattr(dry_run, "MAX_SECONDS", 1.0)
    estimates = []
    own = dry_run.rows
    monkeypatch.setattr(dry_run, "rows", lambda one: [estimates.append(one), own(one)][1])

    def run(folder, *args):
        before = list(own_folder.iterdir())
        assert main(["fit", *TINY, *args, "--dry-run"]) == 0
        assert list(own_folder.iterdir()) == before, "a dry run leaves nothing behind"
        if folder is None:
            return estimates[-1], {}
        assert main(["fit", *TINY, *args, "--run", folder]) == 0
        return estimates[-1], summary(folder)["fit"]

    return run


def test_memory_is_that_of_the_training_up_to_a_third(compare):
    estimate, fit = compare("run", "--trainer.max_steps", "10")
    assert estimate.parameters == fit["parameters"]
    assert estimate.steps == fit["steps"] == 10
    assert 2 / 3 <= estimate.memory["process"] / fit["peak_memory"]["process"] <= 4 / 3


def test_each_optimiser_step_is_timed_with_its_own_tokens(compare, monkeypatch):
    """Four batches a step, and a last step of fewer in each epoch."""
    monkeypatch.setattr(dry_run, "MAX_SECONDS", 600)  # however busy the machine
    estimate, _ = compare(
        None, "--trainer.accumulate_grad_batches", "4", "--trainer.max_steps", "8"
    )
    assert estimate.batches % 4, "else no step has fewer batches"
    assert estimate.timed == 8 - dry_run.WARMUP


@pytest.mark.nightly
def test_time_is_that_of_the_training_up_to_a_third(compare):
    ratios = []
    for attempt in range(3):  # another process may take the processor for a while
        estimate, fit = compare(f"run{attempt}", "--trainer.max_steps", "150")
        ratios.append(estimate.seconds / fit["train_seconds"])
        if 2 / 3 <= ratios[-1] <= 4 / 3:
            return
    raise AssertionError(f"time, estimated / measured: {ratios}")


def test_a_training_of_unknown_length_has_a_time_a_step(own_folder, monkeypatch, capsys):
    monkeypatch.setattr(dry_run, "MAX_SECONDS", 0.2)
    endless = ("--trainer.max_steps", "-1", "--trainer.max_epochs", "-1")
    assert main(["fit", *TINY, *endless, "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "until it is stopped" in out
    assert "s a step" in out
    assert "validation comes on top" in out


def test_a_limit_of_time_that_leaves_no_step_is_one_line(own_folder, capsys):
    assert main(["fit", *TINY, "--trainer.max_time", "00:00:00:00", "--dry-run"]) == 2
    assert "trainer.max_time is over before the first step" in capsys.readouterr().err
