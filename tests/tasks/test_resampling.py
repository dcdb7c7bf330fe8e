"""Intervals of scores over the texts of a test set."""

import numpy as np
import pytest
import torch

from tests.trainers import quiet
from tfzoo.base.registry import registry
from tfzoo.base.terminal import silence_lightning
from tfzoo.learning.resampling import RowScores, intervals
from tfzoo.tasks.regression import RegressionScores
from tfzoo.testing.task import example


def scored(*parts):
    draw = torch.Generator().manual_seed(0)
    predicted, label = torch.randn(2, 400, generator=draw)
    label = label + predicted
    scores = RegressionScores()
    scores.kept = []
    for part in parts:
        scores.update(predicted[part], label[part], (predicted - label)[part].square())
    return scores


def test_the_interval_of_a_mean_is_that_of_its_standard_error():
    scores = scored(slice(0, 400))
    assert scores.kept is not None
    losses = scores.kept[0][2].double()
    mean, error = float(losses.mean()), float(losses.std()) / 20
    low, high = intervals(scores, draws=1000)["loss"]
    assert low == pytest.approx(mean - 1.96 * error, abs=0.3 * error)
    assert high == pytest.approx(mean + 1.96 * error, abs=0.3 * error)
    # Fisher's transformation of a correlation
    r = np.arctanh(float(scores.compute()["pearson"]))
    expected = np.tanh([r - 1.96 / np.sqrt(397), r + 1.96 / np.sqrt(397)])
    assert intervals(scores)["pearson"] == pytest.approx(expected, abs=0.02)


def test_batches_have_no_influence_and_scores_are_left_as_they_are():
    whole, parts = scored(slice(0, 400)), scored(slice(0, 1), slice(1, 400))
    before = {name: float(value) for name, value in whole.compute().items()}
    found = intervals(whole, draws=100)
    assert found == intervals(whole, draws=100)
    assert {name: float(value) for name, value in whole.compute().items()} == before
    for name, interval in intervals(parts, draws=100).items():
        assert interval == pytest.approx(found[name], rel=1e-4)


def test_one_text_and_rows_that_were_not_kept_have_none():
    assert intervals(scored(slice(0, 1))) == {}
    scores = RegressionScores()
    scores.update(torch.ones(3), torch.ones(3), torch.zeros(3))
    assert intervals(scores) == {}


WITHOUT = {"translation": {"loss", "perplexity"}, "token_classification": {"loss"}}
WITHOUT |= {name: {"loss"} for name in ("language_modeling", "masked_language_modeling")}
"""The sums over tokens that are not kept by text."""


@pytest.mark.parametrize("name", registry("task").names())
def test_a_test_gives_each_score_its_interval(name):
    silence_lightning()
    task, data = example(registry("task").entry(name))
    trainer = quiet()
    trainer.test(task.float(), datamodule=data, verbose=False)
    found, given = trainer.callback_metrics, task.intervals()
    for key, (low, high) in given.items():
        assert low <= found[key] <= high or low == pytest.approx(high, abs=0.05), key
    without = {"items", *WITHOUT.get(name, ())}
    assert {*given} == {key for key in found if key.rpartition("/")[2] not in without}
    trainer.validate(task, datamodule=data, verbose=False)
    parts = [one for one in task.scores.modules() if isinstance(one, RowScores)]
    assert parts
    assert all(one.kept is None for one in parts)
