"""The loss of a classifier against PyTorch's, and weights by label."""

import math

import pytest
import torch
import torch.nn.functional as F

from tfzoo.base.registry import registry
from tfzoo.errors import BadOption
from tfzoo.learning.cross_entropy import class_losses, constant_loss, cross_entropy_of_logits
from tfzoo.tasks.classification import Loss
from tfzoo.testing.training import example

LOGITS = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
LABEL = torch.tensor([0, 1, 2, 3, 1, 1])
ERRORS = {"loss", "perplexity", "bits_per_byte", "calibration_error", "mse", "mae"}
"""Scores of which less is better."""


def test_without_smoothing_it_is_torchs_cross_entropy():
    smoothed, nll = class_losses(LOGITS, LABEL)
    torch.testing.assert_close(smoothed, F.cross_entropy(LOGITS, LABEL, reduction="none"))
    torch.testing.assert_close(nll, smoothed)


def test_smoothing_spreads_over_all_classes_but_the_right_one():
    """PyTorch's includes the right one: the same for ``c / (c - 1)`` of the amount."""
    smoothed, _ = class_losses(LOGITS, LABEL, 0.15)
    torch.testing.assert_close(
        smoothed, F.cross_entropy(LOGITS, LABEL, reduction="none", label_smoothing=0.15 * 4 / 3)
    )
    q = torch.full((6, 4), 0.15 / 3).scatter(1, LABEL[:, None], 0.85)
    torch.testing.assert_close(smoothed, -(q * LOGITS.log_softmax(-1)).sum(-1))


@pytest.mark.parametrize(
    ("given", "computed"),
    [(torch.bfloat16, torch.float32), (torch.float16, torch.float32), (torch.float64,) * 2],
)
def test_half_precision_is_summed_in_single_and_double_in_double(given, computed):
    logits = LOGITS.to(given)
    for loss in class_losses(logits, LABEL, 0.1):
        assert loss.dtype == computed
    wanted = F.cross_entropy(logits.double(), LABEL, reduction="none")
    bound, (_, nll) = 8 * torch.finfo(computed).eps, class_losses(logits, LABEL)
    torch.testing.assert_close(nll.double(), wanted, rtol=bound, atol=bound)


def test_weights_are_by_label_and_one_where_none_is_given():
    """Labels that YAML reads as numbers are labels, too."""
    for given, labels, wanted in (
        ({"NUM": 3.0}, ["HUM", "NUM"], [1.0, 3.0]),
        ({0: 2, 1: 1}, ["0", "1"], [2.0, 1.0]),
    ):
        assert Loss(class_weights=given).weights(labels).tolist() == wanted


@pytest.mark.parametrize(
    ("weights", "says"),
    [
        ({"NUMB": 2.0}, "no label 'NUMB'. Did you mean 'NUM'. Labels: HUM, NUM"),
        ({"HUM": 0.0, "NUM": 0.0}, "every weight is 0"),
        ({"HUM": -1.0}, r"loss.class_weights\['HUM'\]=-1.0 must"),
        ({"HUM": float("nan")}, r"class_weights\['HUM'\]=nan must"),
        ("equal", "neither 'balanced' nor"),
    ],
)
def test_weights_that_cannot_be_are_refused(weights, says):
    with pytest.raises(BadOption, match=says):
        Loss(class_weights=weights).weights(["HUM", "NUM"])


@pytest.mark.parametrize(("smoothing", "pad"), [(0.0, None), (0.1, None), (0.1, 3)])
def test_no_constant_prediction_has_a_smaller_loss(smoothing, pad):
    label = torch.tensor([0] * 6 + [1] * 4)
    bias = torch.zeros(4, dtype=torch.float64, requires_grad=True)
    search = torch.optim.LBFGS([bias], max_iter=200, tolerance_grad=1e-12, tolerance_change=1e-15)

    def loss():
        search.zero_grad()
        found = cross_entropy_of_logits(bias.expand(10, 4), label, smoothing, pad)[0] / 10
        found.backward()
        return found

    search.step(loss)
    best = constant_loss(torch.tensor([6, 4, 0, 0]), smoothing, pad)
    assert loss().item() == pytest.approx(best, abs=1e-6)
    if smoothing == 0:
        assert best == pytest.approx(0.6730117, abs=1e-7)  # of labels of 60 and 40 %


LABELS = {
    "classification": lambda batch: batch.label,
    "token_classification": lambda batch: batch.label[batch.label >= 0],
    "language_modeling": lambda batch: batch.labels,
    "translation": lambda batch: batch.target[:, 1:].flatten()[batch.non_padding],
}


@pytest.mark.parametrize("name", LABELS)
def test_a_task_knows_the_entropy_of_its_validation(name):
    task, data = example(registry("task").entry(name))
    task.optim.label_smoothing = 0.0
    held = data.sets["val"]
    labels = torch.cat([LABELS[name](held[[row]]) for row in range(len(held))])
    assert task.constant_loss(data) == pytest.approx(constant_loss(torch.bincount(labels)))


@pytest.mark.parametrize("name", sorted(registry("task").names()))
def test_what_knows_nothing_scores_as_badly_as_a_constant_or_worse(name):
    task, data = example(registry("task").entry(name))
    assert 0 < task.constant_loss(data) <= task.untrained_scores.get("loss", math.inf) + 1e-6
    assert task.untrained_scores.keys() <= task.higher_is_better.keys()
    assert {key for key, up in task.higher_is_better.items() if up == (key in ERRORS)} == set()
