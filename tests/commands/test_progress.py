"""What a training shows while it runs, and how scores are printed."""

import io
import re

import pytest

from tests.tiny import numbers
from tfzoo.base.scores import format_scores
from tfzoo.commands.main import main
from tfzoo.training import progress

pytestmark = pytest.mark.usefixtures("no_pictures")

TINY = [
    *("fit", "translation/numbers"),
    *numbers("--trainer.max_steps 6 --run run", train=400, val=4, test=4, length=0.1),
]


def test_scores_are_one_row_for_each_test_set_and_shares_in_percent():
    scores = {"test/x/exact_match": 50.0, "test/loss": 1.5, "test/accuracy": 0.984, "test/items": 9}
    rows = [("test", "accuracy 98.4 %  loss 1.5"), ("test/x", "exact_match 50 %")]
    assert format_scores(scores) == rows


def test_a_log_has_lines_of_training_and_of_each_validation(own_folder, monkeypatch, capsys):
    monkeypatch.setattr(progress, "EVERY", 0.0)
    assert main(TINY) == 0
    out, err = capsys.readouterr()
    assert re.search(r"^training  step 3 of 6  loss .", err, re.M), err
    assert err.count("step 6  val  ") == 1
    (long,) = [line for line in out.splitlines() if line.strip().startswith("test/long")]
    assert "chrf" in long
    assert "%" in long


def test_a_terminal_has_a_bar_with_loss_and_scores(own_folder, monkeypatch):
    shown = io.StringIO()
    terminal = {"file": shown, "force_terminal": True, "width": 160}
    monkeypatch.setattr(progress, "progress_bar", lambda: progress.Bar(console_kwargs=terminal))
    monkeypatch.setattr("tfzoo.training.train.progress_bar", progress.progress_bar)
    assert main(TINY) == 0
    for said in ("Epoch 0", "step:", "loss: ", "step 6  val  "):
        assert said in shown.getvalue()
