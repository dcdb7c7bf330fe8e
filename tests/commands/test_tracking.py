"""Weights & Biases that refuses, drops or answers errors neither keeps training from starting nor
from ending, and loses nothing.
"""

import re
import time
import warnings
from pathlib import Path

import pytest
import wandb

from benchmarks.wandb_host import serving
from tests.daily import sampled
from tests.results import summary
from tests.tiny import numbers
from tfzoo.commands.main import main
from tfzoo.learning.task import Task
from tfzoo.training.tracking import LogQueue

TINY = numbers("--trainer.log_every_n_steps 1 --trainer.max_steps 3 --trainer.logger WandbLogger")


@pytest.fixture
def host(request, own_folder, monkeypatch):
    """A host on this machine that behaves as ``request.param`` says; training runs in a folder of
    its own.
    """
    for name in ("WANDB_MODE", "http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "")  # so that it is afterwards what it was
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(own_folder))
    monkeypatch.setenv("WANDB_API_KEY", "a" * 40)
    with serving(request.param) as address:
        monkeypatch.setenv("WANDB_BASE_URL", address)
        yield request.param
    if request.param != "refuses":
        wandb.teardown()  # its client keeps the address that it was started with


HOSTS = {
    "refuses": "Connection refused); its data is kept offline",
    "silent": "did not answer in 5 seconds; its data is kept offline",
    "errors": "Internal Server Error); its data is kept offline",
    "stranger": "does not know this account; its data is kept offline",
    "unopened": "its data is kept offline",
    "lost": "",
    "mute": "",
}
"""What a host does, and what is said of it."""


@pytest.mark.parametrize("host", sampled(HOSTS, ["stranger"]), indirect=True)
def test_training_starts_ends_and_keeps_its_data(host, capsys, monkeypatch):
    times = []

    def timed(self, *args, step=Task.on_train_batch_end):
        times.append(time.monotonic())
        step(self, *args)

    monkeypatch.setattr(Task, "on_train_batch_end", timed)
    # what is imported is not what is measured
    assert main(["fit", "translation/numbers", "--print_config"]) == 0
    start = time.monotonic()
    assert main(["fit", "translation/numbers", *TINY]) == 0
    assert times[0] - start < 30, "the first step"
    assert time.monotonic() - times[-1] < 30, "the end"
    err = capsys.readouterr().err
    assert HOSTS[host] in err
    kept = next(
        run for run in Path("runs/numbers/1/wandb").glob("*run-*") if f"wandb sync {run}" in err
    )
    assert next(kept.glob("*.wandb")).stat().st_size > 0
    assert summary("runs/numbers/1")["test"]["scores"]


class Slow:
    """A logger on a machine with much to do: each call begins late, and a table is metrics too."""

    def __init__(self) -> None:
        self.logged: list[str] = []
        self.wait = 0.05

    def log_metrics(self, name):
        time.sleep(self.wait)
        self.logged.append(name)

    def log_table(self, name):
        time.sleep(self.wait)
        self.log_metrics(name)

    log_hyperparams = after_save_checkpoint = finalize = log_metrics


def test_what_a_call_logs_by_another_call_is_logged_before_the_queue_is_empty():
    logger = Slow()
    queue = LogQueue(logger)
    logger.log_table("examples")
    assert queue.drained(10)
    assert logger.logged == ["examples"]
    assert queue.stop() == []


def test_what_is_not_logged_in_time_is_named():
    logger = Slow()
    logger.wait = 1
    queue = LogQueue(logger)
    for _ in range(3):
        logger.log_metrics("loss")
    logger.log_table("examples")
    assert not queue.drained(0.1)
    assert queue.stop() == ["log_metrics", "log_table"]
    time.sleep(1.2)
    assert logger.logged == ["loss"], "what was stopped is not made later"


@pytest.mark.parametrize("logger", ["WandbLogger", "TensorBoardLogger", "CSVLogger"])
def test_another_logger_has_all_offline_and_prints_no_warning(
    logger, own_folder, capfd, monkeypatch
):
    monkeypatch.setenv("WANDB_MODE", "offline")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert main(["fit", "translation/numbers", *TINY, "--trainer.logger", logger]) == 0
    err = capfd.readouterr().err
    assert not [line for line in err.splitlines() if re.search(r"(?i)\bwarn|^wandb|Tip:", line)]
    assert not [one for one in caught if one.category is UserWarning], caught
    kept = {
        "WandbLogger": "wandb/offline-run-*/files/media/table/val/*.json",
        "TensorBoardLogger": "lightning_logs/version_0/events.out.*",
        "CSVLogger": "lightning_logs/version_0/metrics.csv",
    }[logger]
    assert list(Path("runs/numbers/1").glob(kept))
    assert Path("runs/numbers/1/metrics.csv").is_file(), "it is added to it"
    assert {path.name for path in Path().iterdir()} == {"runs"}
    if logger == "TensorBoardLogger":
        assert "curves" in pictures_of(Path("runs/numbers/1/lightning_logs"))


def pictures_of(folder):
    """The names of the pictures that TensorBoard shows."""
    from tensorboard.backend.event_processing.event_multiplexer import EventMultiplexer

    shown = EventMultiplexer().AddRunsFromDirectory(str(folder)).Reload()
    return {name for run in shown.Runs().values() for name in run["images"]}
