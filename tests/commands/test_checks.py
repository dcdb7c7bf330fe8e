"""What cannot work, or does less than it seems to, is said before the first step."""

from pathlib import Path

import pytest

from tests.commands.test_finished import SMALL
from tfzoo.commands.main import main

pytestmark = pytest.mark.usefixtures("no_pictures", "own_folder")
STEPS = ("--trainer.max_steps", "3", "--trainer.log_every_n_steps", "1")
STOPPING = ("--trainer.callbacks+=EarlyStopping", "--trainer.callbacks.monitor")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--checkpoint.monitor", "val/bleuu"), "no metric 'val/bleuu'. Did you mean 'val/bleu'?"),
        ((*STOPPING, "val/los"), "no metric 'val/los'. Did you mean 'val/loss'?"),
        ((*STOPPING, "train/los"), "no metric 'train/los'. Did you mean 'train/loss'?"),
        # which Lightning takes for better the lower it is, where mode is not given
        ((*STOPPING, "val/bleu"), "val/bleu is better the higher it is: set mode to max"),
        (
            ("--checkpoint.monitor", "val/loss", "--checkpoint.mode", "max"),
            "checkpoint.mode: val/loss is better the lower it is: set mode to min",
        ),
        (("--data.test", "a", "--data.test.old", "b"), "test and --data.test.old: name both"),
        (("--trainer.max_steps", "0"), "trainer.max_steps=0 trains nothing"),
        (("--trainer.limit_train_batches", "0"), "trainer.limit_train_batches=0 trains nothing"),
        (
            ("--trainer.val_check_interval", "0.5", "--trainer.check_val_every_n_epoch", "null"),
            "should be an integer",
        ),
        (
            ("--trainer.val_check_interval", "999", "--trainer.check_val_every_n_epoch", "1"),
            "`val_check_interval` (999) must be less than or equal to the number of the training",
        ),
        (("--trainer.limit_val_batches", "0.01"), "0.01"),
    ],
)
def test_what_cannot_work_is_refused_before_the_first_step(options, said, capsys):
    assert main([*SMALL, *STEPS, *options]) in (1, 2)
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error
    assert not Path("run/metrics.csv").exists()


def test_a_metric_that_a_callback_of_ones_own_may_log_is_missed_at_the_first_validation(
    capsys, monkeypatch
):
    code = "from lightning.pytorch import Callback\nclass Mine(Callback): pass\n"
    Path("own_callback.py").write_text(code)
    monkeypatch.syspath_prepend(".")
    own = ("--trust", "--trainer.callbacks+=own_callback.Mine", *STOPPING, "val/los")
    assert main([*SMALL, *STEPS, *own, "--trainer.val_check_interval", "1"]) == 1
    error = capsys.readouterr().err
    assert "training failed after step 1: " in error
    assert "val/los" in error.replace("val/loss", "")
    assert "Traceback" not in error


def test_a_warmup_that_does_not_end_is_told_before_the_first_step(capsys):
    warmup = ("--optim.schedule", "constant", "--optim.schedule.warmup", "30")
    assert main([*SMALL, *STEPS, *warmup]) == 0
    error = capsys.readouterr().err
    assert "warmup is longer than the training's 3 steps" in error
    assert "reaches 0.1 of optim.lr" in error
