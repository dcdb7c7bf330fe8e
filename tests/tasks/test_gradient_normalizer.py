"""A step divides once, by all that was counted, and says when there is nothing to follow."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from tfzoo.learning.gradient_normalizer import GradientNormalizer, SkippedSteps

X, Y = torch.randn(7, 3, generator=torch.Generator().manual_seed(0)), torch.arange(7.0)


def model():
    linear = nn.Linear(3, 1)
    nn.init.ones_(linear.weight)
    nn.init.zeros_(linear.bias)
    return linear


def summed(linear, rows):
    return (linear(X[rows])[:, 0] - Y[rows]).square().sum()


@pytest.mark.parametrize("tensors", [True, False])
def test_unequal_micro_batches_give_the_gradient_of_the_mean_over_all(tensors):
    parts, whole, step = model(), model(), GradientNormalizer()
    for rows, count in ((slice(0, 2), 2), (slice(2, 7), 5)):
        loss = summed(parts, rows)
        step.add(loss, torch.tensor(float(count)) if tensors else count)
        (loss / 2).backward()  # as Lightning does where it accumulates two
    assert step.normalize_(list(parts.parameters()), 1, 2)
    mean = summed(whole, slice(0, 7)) / 7
    mean.backward()
    assert step.loss.item() == pytest.approx(mean.item())
    assert step.norm.item() == pytest.approx(
        float(nn.utils.get_total_norm([p.grad for p in whole.parameters() if p.grad is not None]))
    )
    for ours, wanted in zip(parts.parameters(), whole.parameters(), strict=True):
        assert_close(ours.grad, wanted.grad)


def test_a_mean_that_a_task_made_itself_is_left_alone():
    linear, step = model(), GradientNormalizer()
    summed(linear, slice(0, 7)).backward()
    before = [p.grad.clone() for p in linear.parameters() if p.grad is not None]
    assert step.normalize_(list(linear.parameters()), 1, 1)
    assert_close([p.grad for p in linear.parameters()], before, rtol=0, atol=0)


@pytest.mark.parametrize("count", [7, 0.5])
def test_double_gradients_are_normalised_in_double_also_by_weights_under_1(count):
    linear, step = model().double(), GradientNormalizer()
    loss = (linear(X.double())[:, 0] - Y).square().sum()
    step.add(loss, count)
    loss.backward()
    wanted = [p.grad / count for p in linear.parameters() if p.grad is not None]
    assert step.normalize_(list(linear.parameters()), 1, 1)
    assert step.loss.item() == pytest.approx(loss.item() / count, rel=1e-12)
    assert_close([p.grad for p in linear.parameters()], wanted, rtol=1e-12, atol=0)


def test_skipped_steps_are_counted_on_the_device_and_read_afterwards():
    steps = SkippedSteps()
    assert steps.last_in_a_row() == 0
    seen = []
    for skipped in (True, True, False, True):
        steps.add(torch.tensor(skipped))
        seen.append(steps.last_in_a_row())
    assert seen == [1, 2, 0, 1]
    steps.add(torch.tensor(True), tolerated=True)
    assert (steps.last_in_a_row(), int(steps.total)) == (0, 4)
