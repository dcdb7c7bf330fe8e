"""Steps, tokens and seconds are those of training, through validation, resuming and processes."""

from types import SimpleNamespace

import pytest
import torch

from tfzoo.training import progress
from tfzoo.training.progress import Throughput
from tfzoo.training.trainer import make_logger


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(progress, "perf_counter", made)
    return made


def trainer(world_size=1, reduce=None):
    def reduced(value, reduce_op):
        assert reduce_op == "sum"
        return value if reduce is None else reduce(value)

    strategy = SimpleNamespace(root_device=torch.device("cpu"), reduce=reduced)
    return SimpleNamespace(world_size=world_size, strategy=strategy)


def batch(meter, clock, seconds, tokens):
    clock.now += seconds
    meter.on_train_batch_end(trainer(), SimpleNamespace(tokens=tokens), None, None, 0)


def begun(clock):
    meter = Throughput()
    clock.now += 7.0  # between making it and training: reading data
    meter.setup(trainer(), None, "fit")
    meter.on_train_start(trainer(), None)
    return meter


def without_memory(counts):
    assert counts.pop("peak_memory")["process"] > 0
    return counts


def test_seconds_of_validation_are_none_of_training(clock):
    meter = begun(clock)
    batch(meter, clock, 2.0, 100)
    batch(meter, clock, 3.0, torch.tensor(250))
    clock.now += 10.0  # validation
    meter.on_validation_end(None, None)
    batch(meter, clock, 1.25, torch.tensor(500))
    assert without_memory(meter.counts()) == {
        "seconds": 16.2,
        "tokens": 500,
        "train_seconds": 6.25,
        "tokens_per_second": 80,
    }


def test_a_checkpoint_holds_the_counts_and_a_training_that_goes_on_adds_to_them(clock):
    first = begun(clock)
    batch(first, clock, 2.0, 100)
    batch(first, clock, 2.0, 200)
    clock.now += 1.0
    state = first.state_dict()
    assert state == {"tokens": 200, "training": 4.0, "seconds": 5.0}

    clock.now += 1000.0
    second = Throughput()
    second.load_state_dict(state)
    second.setup(trainer(), None, "fit")
    second.on_train_start(trainer(), None)
    batch(second, clock, 3.0, 50)  # the task counts from 0 again
    assert without_memory(second.counts()) == {
        "seconds": 8.0,
        "tokens": 250,
        "train_seconds": 7.0,
        "tokens_per_second": 36,
    }
    assert second.state_dict() == {"tokens": 250, "training": 7.0, "seconds": 8.0}


def test_a_limit_of_tokens_counts_all_attempts_and_processes(clock):
    meter = Throughput()
    meter.load_state_dict({"tokens": 1000, "training": 1.0, "seconds": 1.0})
    meter.setup(trainer(world_size=2, reduce=lambda own: own + 30), None, "fit")
    batch(meter, clock, 1.0, torch.tensor(70))
    assert meter.has_trained(1100)
    assert not meter.has_trained(1101)
    assert not meter.has_trained(None)
    assert meter.counts()["tokens"] == 1100
    meter.on_train_end(trainer(), None)
    assert meter.total == 100


def test_a_training_that_goes_on_logs_into_its_run_of_wandb(tmp_path):
    (tmp_path / "wandb/offline-run-20261129_131415-abc").mkdir(parents=True)
    kind = {"class_path": "lightning.pytorch.loggers.WandbLogger"}
    assert make_logger(kind, tmp_path).version == "abc"
