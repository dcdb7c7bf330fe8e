"""A run that was stopped, however and wherever, goes on to the same end as one that was not."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.commands.test_fit import TINY, fitted
from tfzoo import TranslationTask
from tfzoo.commands.main import main

RUN = Path("run")
STEPS = 8
EPOCH = 5
"""Batches of an epoch of these runs."""


@pytest.fixture(autouse=True)
def in_its_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TFZOO_RUN_FOLDER", raising=False)


def fit(*args: str) -> int:
    trainer = ("--trainer.max_steps", str(STEPS), "--trainer.val_check_interval", "3", "--trainer.limit_train_batches", str(EPOCH))
    often = ("--data.max_tokens", "256", "--checkpoint.every_n_train_steps", "1")
    return main(["fit", "translation/numbers", *TINY, *trainer, *often, "--run", str(RUN), *args])


def state(folder: Path = RUN) -> dict[str, Any]:
    """All of a run's last checkpoint that training depends on."""
    last = torch.load(folder / "checkpoints/last.ckpt", weights_only=True)
    names = ("state_dict", "optimizer_states", "lr_schedulers", "global_step", "epoch", "tfzoo", "current_model_state", "averaging_state")
    return {path: value for name in names if name in last for path, value in leaves(last[name], name)}


def leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """By dotted name; of a tensor, all its bits."""
    if isinstance(value, torch.Tensor):
        yield name, (value.dtype, value.shape, value.contiguous().view(-1).view(torch.uint8).tolist())
    elif isinstance(value, dict | list | tuple):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(inner, f"{name}.{key}")
    else:
        yield name, value


def rows(folder: Path = RUN) -> list[dict[str, str]]:
    """Of ``metrics.csv``, but for what a clock says."""
    with (folder / "metrics.csv").open(newline="") as stream:
        return [{key: value for key, value in row.items() if key != "train/tokens_per_second"} for row in csv.DictReader(stream)]


def assert_same(folder: Path) -> None:
    found, wanted = state(), state(folder)
    assert [name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name)] == []
    assert rows() == rows(folder)
    assert fitted("run")["fit"]["scores"] == fitted(str(folder))["fit"]["scores"]
    assert fitted("run")["fit"]["steps"] == STEPS


class Copies:
    """Copies of a run's folder while it trains: what SIGKILL would leave behind."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.made: list[Path] = []
        for name in ("training_step", "validation_step"):
            patch.setattr(TranslationTask, name, self._copying(name, getattr(TranslationTask, name)))

    def _copying(self, name: str, step: Any) -> Any:
        def copying(task: TranslationTask, batch: Any, index: int) -> Any:
            if task.global_rank == 0 and (RUN / "checkpoints/last.ckpt").is_file():
                self.made.append(Path(f"copy-{name}-{task.batches}"))
                shutil.rmtree(self.made[-1], ignore_errors=True)
                shutil.copytree(RUN, self.made[-1])
            return step(task, batch, index)

        return copying


@pytest.mark.parametrize(
    "options",
    [
        pytest.param([], id="plain"),
        pytest.param(["--trainer.accumulate_grad_batches", "2"], id="accumulation"),
        pytest.param(["--trainer.max_steps", "-1", "--trainer.max_epochs", "2"], id="epochs"),
    ],
)
def test_a_killed_run_goes_on_to_the_same_end(options: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        copies = Copies(patch)
        assert fit(*options) == 0
    RUN.rename("whole")
    for copy in dict.fromkeys(copies.made):
        copy.rename(RUN)
        assert fit(*options) == 0
        assert_same(Path("whole"))
        shutil.rmtree(RUN)
