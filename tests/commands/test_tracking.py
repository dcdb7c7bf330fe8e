"""Weights & Biases that refuses, drops or answers errors neither keeps training from starting nor
from ending, and loses nothing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import wandb

from benchmarks.wandb_host import serving
from tfzoo.commands.main import main
from tfzoo.learning.task import Task

TINY = (
    *(
        "--data.dataset.train",
        "200",
        "--data.dataset.val",
        "8",
        "--data.dataset.test",
        "8",
        "--data.dataset.long",
        "4",
    ),
    *(
        "--model.dim",
        "16",
        "--model.layers",
        "1",
        "--model.heads",
        "2",
        "--search.max_length",
        "0.2",
        "--trainer.accelerator",
        "cpu",
    ),
    *(
        "--trainer.devices",
        "1",
        "--trainer.log_every_n_steps",
        "1",
        "--trainer.max_steps",
        "3",
        "--trainer.logger",
        "WandbLogger",
    ),
)


@pytest.fixture
def host(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """A host on this machine that behaves as ``request.param`` says; training runs in a folder of
    its own.
    """
    monkeypatch.chdir(tmp_path)
    for name in ("WANDB_MODE", "http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "")  # so that it is afterwards what it was
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("WANDB_API_KEY", "a" * 40)
    with serving(request.param) as address:
        monkeypatch.setenv("WANDB_BASE_URL", address)
        yield request.param
    if request.param != "refuses":
        wandb.teardown()  # its client keeps the address that it was started with


@pytest.mark.parametrize(
    ("host", "says"),
    [
        pytest.param(
            "refuses", "Connection refused); its data is kept offline", marks=pytest.mark.nightly
        ),
        pytest.param(
            "silent",
            "did not answer in 5 seconds; its data is kept offline",
            marks=pytest.mark.nightly,
        ),
        pytest.param(
            "errors",
            "Internal Server Error); its data is kept offline",
            marks=pytest.mark.nightly,
        ),
        ("stranger", "does not know this account; its data is kept offline"),
        pytest.param("unopened", "its data is kept offline", marks=pytest.mark.nightly),
        pytest.param("lost", "", marks=pytest.mark.nightly),
        pytest.param("mute", "", marks=pytest.mark.nightly),
    ],
    indirect=["host"],
)
def test_training_starts_ends_and_keeps_its_data(
    host: str, says: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    times: list[float] = []

    def timed(self: Task, *args: Any, step: Any = Task.on_train_batch_end) -> None:
        times.append(time.monotonic())
        step(self, *args)

    monkeypatch.setattr(Task, "on_train_batch_end", timed)
    assert (
        main(["fit", "translation/numbers", "--print_config"]) == 0
    )  # what is imported is not what is measured
    start = time.monotonic()
    assert main(["fit", "translation/numbers", *TINY]) == 0
    assert times[0] - start < 30, "the first step"
    assert time.monotonic() - times[-1] < 30, "the end"
    err = capsys.readouterr().err
    assert says in err
    kept = next(
        run for run in Path("runs/numbers/1/wandb").glob("*run-*") if f"wandb sync {run}" in err
    )
    assert next(kept.glob("*.wandb")).stat().st_size > 0
    assert json.loads(Path("runs/numbers/1/summary.json").read_text("utf-8"))["test"]["scores"]
