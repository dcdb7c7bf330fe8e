"""Intervals of scores over the texts of a test set."""

import numpy as np
import pytest
import torch

from tests.scored import scores_in, task_with
from tests.trainers import quiet
from tfzoo.base.registry import registry
from tfzoo.base.terminal import silence_lightning
from tfzoo.tasks.classification import ClassificationTask
from tfzoo.tasks.regression import RegressionTask
from tfzoo.testing.training import example

NUMBERS = task_with(RegressionTask)


def scored(*parts):
    draw = torch.Generator().manual_seed(0)
    predicted, label = torch.randn(2, 400, generator=draw)
    label = label + predicted
    zero = torch.tensor(0.0)
    return scores_in(NUMBERS, *((zero, 1, predicted[part], label[part]) for part in parts))


def test_the_interval_of_a_mean_is_that_of_its_standard_error():
    scores = scored(slice(0, 400))
    predicted, label = scores.columns
    errors = (predicted - label).abs()
    mean, error = float(errors.mean()), float(errors.std()) / 20
    low, high = scores.intervals(NUMBERS)["mae"]
    assert low == pytest.approx(mean - 1.96 * error, abs=0.3 * error)
    assert high == pytest.approx(mean + 1.96 * error, abs=0.3 * error)
    # Fisher's transformation of a correlation
    r = np.arctanh(float(scores.compute(NUMBERS)["pearson"]))
    expected = np.tanh([r - 1.96 / np.sqrt(397), r + 1.96 / np.sqrt(397)])
    assert scores.intervals(NUMBERS)["pearson"] == pytest.approx(expected, abs=0.02)


def test_batches_have_no_influence():
    whole, parts = scored(slice(0, 400)), scored(slice(0, 1), slice(1, 400))
    assert whole.intervals(NUMBERS) == parts.intervals(NUMBERS)


def test_one_text_has_none():
    assert scored(slice(0, 1)).intervals(NUMBERS) == {}


@pytest.mark.parametrize(("right", "of"), [(20, 20), (0, 20), (13, 20), (1, 1000)])
def test_a_share_of_texts_has_the_interval_of_wilson(right, of):
    """20 of 20 are not 1.0 to 1.0."""
    task, label = task_with(ClassificationTask, labels=["no", "yes"]), torch.ones(of).long()
    predicted = (torch.arange(of) < right).long()
    batch = torch.tensor(0.0), 1, torch.full((of,), 0.9), predicted, label
    low, high = scores_in(task, batch).intervals(task)["accuracy"]
    z, p = 1.959963984540054, right / of
    middle, width = p + z**2 / (2 * of), z * np.sqrt(p * (1 - p) / of + z**2 / (4 * of**2))
    expected = np.array([middle - width, middle + width]) / (1 + z**2 / of)
    assert (low, high) == pytest.approx(expected, abs=1e-12)
    assert high - low > 0.005


@pytest.mark.parametrize("name", registry("task").names())
def test_a_test_gives_each_score_but_the_loss_its_interval(name):
    silence_lightning()
    task, data = example(registry("task").entry(name))
    trainer = quiet()
    trainer.test(task.float(), datamodule=data, verbose=False)
    found, given = trainer.callback_metrics, task.intervals()
    for key, (low, high) in given.items():
        assert low <= found[key] <= high or low == pytest.approx(high, abs=0.05), key
    without = {"items", "loss"}
    assert {*given} == {key for key in found if key.rpartition("/")[2] not in without}
