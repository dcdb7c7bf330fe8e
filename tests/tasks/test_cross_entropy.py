"""The chunked cross entropy is the plain one, in value and in gradient."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.golden import load
from tfzoo.tasks.cross_entropy import ROWS, cross_entropy


def plain(hidden: Tensor, weight: Tensor, target: Tensor, smoothing: float, pad: int) -> Tensor:
    log_p = F.log_softmax(hidden @ weight.mT, dim=-1)
    q = torch.full_like(log_p, smoothing / (len(weight) - 2))
    q[:, pad] = 0
    q.scatter_(1, target[:, None], 1 - smoothing)
    return -(q * log_p).sum()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("tokens", [1, ROWS, 2 * ROWS + 7])
def test_value_and_gradients_are_those_of_the_formula(smoothing: float, tokens: int) -> None:
    torch.manual_seed(0)
    hidden, weight = (
        torch.randn(tokens, 16, requires_grad=True),
        torch.randn(37, 16, requires_grad=True),
    )
    target = torch.randint(1, 37, (tokens,))
    got, nll = cross_entropy(hidden, weight, target, smoothing)
    wanted = plain(hidden, weight, target, smoothing, 0)
    torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(
        nll, F.cross_entropy(hidden @ weight.mT, target, reduction="sum"), rtol=1e-5, atol=1e-4
    )
    for one, other in zip(
        torch.autograd.grad(got / 3, (hidden, weight)),
        torch.autograd.grad(wanted / 3, (hidden, weight)),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_smoothing_is_what_other_toolkits_compute_when_padding_gets_nothing() -> None:
    """They report the divergence from the smoothed target: the cross entropy less the target's own
    entropy.
    """
    case, arrays = load("loss/label_smoothing_01")
    valid = arrays["mask.key_valid"]
    logits, target, pad = (
        arrays["in.logits"][valid],
        arrays["in.targets"][valid],
        case["config"]["pad_index"],
    )
    v, epsilon = logits.shape[1], case["config"]["epsilon"]
    hidden, weight = logits.requires_grad_(), torch.eye(v)
    got, _ = cross_entropy(hidden, weight, target, epsilon, pad)
    q = torch.tensor([1 - epsilon] + [epsilon / (v - 2)] * (v - 2))
    entropy = -(q * q.log()).sum() * len(target)
    torch.testing.assert_close(got - entropy, arrays["out.joeynmt_sum"], rtol=1e-5, atol=1e-5)
    (gradient,) = torch.autograd.grad(got, hidden)
    torch.testing.assert_close(gradient, arrays["grad.joeynmt_sum"][valid], rtol=1e-5, atol=1e-6)


def test_padding_gets_no_mass() -> None:
    weight = torch.eye(4)
    logits = torch.tensor([[5.0, 1.0, 2.0, 3.0]], requires_grad=True)
    loss, _ = cross_entropy(logits, weight, torch.tensor([2]), 0.3)
    loss.backward()
    assert logits.grad is not None
    torch.testing.assert_close(
        logits.grad[0, 0], logits.detach().softmax(-1)[0, 0]
    )  # nothing but its own probability pushes it down


def test_no_gradient_is_computed_where_none_is_wanted() -> None:
    hidden, weight = torch.randn(5, 4, requires_grad=True), torch.randn(9, 4, requires_grad=True)
    with torch.no_grad():
        loss, _ = cross_entropy(hidden, weight, torch.tensor([1, 2, 3, 4, 5]), 0.1)
    assert not loss.requires_grad


def test_bfloat16_autocast_stays_close() -> None:
    torch.manual_seed(0)
    hidden, weight = (
        torch.randn(64, 16, requires_grad=True),
        torch.randn(37, 16, requires_grad=True),
    )
    target = torch.randint(1, 37, (64,))
    wanted, _ = cross_entropy(hidden, weight, target, 0.1)
    with torch.autocast("cpu", torch.bfloat16):
        got, _ = cross_entropy(hidden, weight, target, 0.1)
    got.backward()
    assert got.dtype == torch.float32
    assert hidden.grad is not None
    assert hidden.grad.dtype == torch.float32
    torch.testing.assert_close(got, wanted, rtol=1e-2, atol=0.1)
