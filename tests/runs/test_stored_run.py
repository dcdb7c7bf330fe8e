"""A run that tfzoo 0.2.0 wrote loads and goes on. Its folder was made with

    tfzoo fit translation/numbers OPTIONS --trainer.max_steps 4 --run run

where ``OPTIONS`` stand below; absolute paths were cut from it.
"""

import shutil
from pathlib import Path

import pytest
import torch

import tfzoo
from tests.results import rows, summary
from tfzoo.commands.main import main

OPTIONS = (
    *("--data.dataset.train", "200", "--data.dataset.val", "8", "--data.dataset.test", "8"),
    *("--data.dataset.long", "4", "--data.tokenizer.vocab_size", "300", "--data.max_tokens", "256"),
    *("--model.dim", "8", "--model.layers", "1", "--model.heads", "2"),
    *("--model.feedforward", "swiglu", "--model.feedforward.hidden", "24"),
    *("--search.max_length", "0.2"),
    *("--trainer.accelerator", "cpu", "--trainer.devices", "1"),
    *("--trainer.val_check_interval", "2"),
)


@pytest.fixture
def run(own_folder, monkeypatch):
    monkeypatch.delenv("TFZOO_RUN_FOLDER", raising=False)
    shutil.copytree(Path(__file__).with_name("stored_run"), own_folder / "run")
    return own_folder / "run"


def test_it_loads_with_its_weights(run):
    task = tfzoo.TranslationTask.load(run)
    stored = torch.load(run / "checkpoints/last.ckpt", weights_only=True)["state_dict"]
    assert all(torch.equal(value, stored[name]) for name, value in task.state_dict().items())
    assert len(task.translate(["twenty plus two"])) == 1


def test_it_goes_on_where_it_stood(run):
    before = summary(run)["fit"]
    stored = rows(run)
    more = ("--trainer.max_steps", "6", "--run", str(run))
    assert main(["fit", "translation/numbers", *OPTIONS, *more]) == 0
    after = summary(run)["fit"]
    assert after["attempts"][-1]["from"] == 4
    assert after["steps"] == 6
    assert after["tokens"] > before["tokens"], "tokens of both attempts"
    assert after["train_seconds"] > before["train_seconds"]
    steps = [int(row["step"]) for row in rows(run)]
    assert len(steps) >= len(stored)
    assert steps == sorted(steps)
