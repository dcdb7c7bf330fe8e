"""What a training shows while it runs, and how scores are printed."""

import io
import re
import sys
from types import SimpleNamespace

import pytest
from rich.console import Console

from tests.tiny import numbers
from tfzoo.base.scores import format_scores
from tfzoo.commands.main import main
from tfzoo.training import progress

pytestmark = pytest.mark.usefixtures("no_pictures")

TINY = [
    *("fit", "translation/numbers"),
    *numbers("--trainer.max_steps 6 --run run", train=400, val=4, test=4, length=0.1),
]


def test_time_left_is_that_of_the_rest_at_the_speed_so_far():
    assert progress.time_left(10, 100, 60.0) == "  0:09:00 left"
    assert progress.time_left(0, 100, 60.0) == ""
    assert progress.time_left(10, float("inf"), 60.0) == ""


def test_scores_are_one_row_for_each_test_set_and_shares_in_percent():
    scores = {
        "test/long/exact_match": 50.0,
        "test/loss": 1.5,
        "test/accuracy": 0.984,
        "test/items": 9,
    }
    assert format_scores(scores) == [
        ("test", "accuracy 98.4 %  loss 1.5"),
        ("test/long", "exact_match 50 %"),
    ]


def test_a_log_has_lines_of_training_validation_and_test(own_folder, monkeypatch, capsys):
    monkeypatch.setattr(progress, "EVERY", 0.0)
    assert main([*TINY, "--samples", "1"]) == 0
    out, err = capsys.readouterr()
    assert re.search(r"^0:00:\d\d  training  step 3 of 6  loss .*  0:00:\d\d left$", err, re.M), err
    for said in (
        "0:00:00 left",
        "validation  batch 1 of 1",
        "test  batch 1 of 2",
    ):
        assert said in err, err
    assert err.count("\n    -> ") == err.count("step 6  val  ") == 1
    (long,) = [line for line in out.splitlines() if line.strip().startswith("test/long")]
    assert "chrf" in long
    assert "%" in long


def test_a_bar_ends_at_the_last_step(monkeypatch):
    """However short ago it was drawn."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(progress, "Console", lambda stderr: Console(file=io.StringIO()))
    trainer = SimpleNamespace(
        global_step=55, estimated_stepping_batches=60, callbacks=[], callback_metrics={}
    )
    task = None
    bar = progress.Bar()
    bar.on_train_start(trainer, task)
    bar.shown = float("inf")
    trainer.global_step = 60
    bar.on_train_end(trainer, task)
    assert bar.bar is not None
    assert bar.bar.tasks[0].completed == 60
    assert bar.bar.tasks[0].fields["text"].startswith("step 60 of 60")
    bar.teardown(trainer, task, "fit")


def test_a_terminal_has_a_bar_for_each_phase(own_folder, monkeypatch):
    monkeypatch.setattr(progress, "REDRAW", 0.0)
    shown = io.StringIO()
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(
        progress, "Console", lambda stderr: Console(file=shown, force_terminal=True, width=120)
    )
    assert main([*TINY, "--samples", "0"]) == 0
    for said in ("training", "of 6", "left", "validation", "test"):
        assert said in shown.getvalue()
    assert "->" not in shown.getvalue()
