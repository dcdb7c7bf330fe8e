"""The chunked cross entropy is the plain one, in value and in gradient."""

import pytest
import torch
import torch.nn.functional as F

from tests.exact import close
from tests.golden import load
from tfzoo.base.functional import soft_cap
from tfzoo.errors import BadOption
from tfzoo.learning.cross_entropy import chunk_rows, cross_entropy, cross_entropy_of_logits

ROWS = chunk_rows(torch.device("cpu"), 37)


def plain(hidden, weight, target, smoothing, pad, cap=None):
    logits = hidden @ weight.mT
    log_p = F.log_softmax(logits if cap is None else cap * (logits / cap).tanh(), dim=-1)
    q = torch.full_like(log_p, smoothing / (len(weight) - 2))
    q[:, pad] = 0
    q.scatter_(1, target[:, None], 1 - smoothing)
    return -(q * log_p).sum()


def drawn(tokens, v=37, d=16):
    draw = torch.Generator().manual_seed(0)
    hidden = torch.randn(tokens, d, generator=draw, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(v, d, generator=draw, dtype=torch.float64, requires_grad=True)
    return hidden, weight, torch.randint(1, v, (tokens,), generator=draw)


@pytest.mark.parametrize("cap", [None, 2.0])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("tokens", [1, ROWS, 2 * ROWS + 7])
def test_value_and_gradients_are_those_of_the_formula(smoothing, tokens, cap):
    """Fused with the last layer, and of logits; padding may have any id."""
    hidden, weight, target = drawn(tokens)
    pad = 3
    target[target == pad] = 0
    wanted = plain(hidden, weight, target, smoothing, pad, cap)
    logits = hidden @ weight.mT
    logits = logits if cap is None else soft_cap(logits, cap)
    wanted_nll = F.cross_entropy(logits, target, reduction="none")
    gradients = torch.autograd.grad(wanted, (hidden, weight))
    for got, nll in (
        cross_entropy(hidden, weight, target, smoothing, pad, cap=cap),
        cross_entropy_of_logits(logits, target, smoothing, pad),
    ):
        torch.testing.assert_close(got, wanted, rtol=1e-9, atol=0)
        torch.testing.assert_close(nll, wanted_nll, rtol=1e-9, atol=0)
        close(torch.autograd.grad(got, (hidden, weight), retain_graph=True), gradients)


@pytest.mark.parametrize("cap", [None, 2.0])
def test_what_it_has_no_derivatives_for_is_refused(cap):
    hidden, weight, target = drawn(5, v=7, d=3)

    def loss(h):
        return cross_entropy(h, weight, target, 0.1, pad=0, cap=cap)[0]

    assert torch.autograd.gradcheck(loss, hidden)
    with pytest.raises(BadOption, match="no second derivatives: take cross_entropy_of_logits"):
        torch.autograd.grad(loss(hidden), hidden, create_graph=True)
    with pytest.raises(RuntimeError, match="functorch transforms"):
        torch.func.grad(loss)(hidden)
    with torch.autocast("cpu", torch.bfloat16):
        assert loss(hidden).dtype == torch.float64


def test_smoothing_is_what_other_toolkits_compute_when_padding_gets_nothing():
    """They report the cross entropy less the smoothed target's own entropy."""
    case, arrays = load("loss/label_smoothing_01")
    valid = arrays["mask.key_valid"]
    logits, target = arrays["in.logits"][valid], arrays["in.targets"][valid]
    v, epsilon, pad = logits.shape[1], case["config"]["epsilon"], case["config"]["pad_index"]
    hidden, weight = logits.requires_grad_(), torch.eye(v)
    got, _ = cross_entropy(hidden, weight, target, epsilon, pad)
    q = torch.tensor([1 - epsilon] + [epsilon / (v - 2)] * (v - 2))
    entropy = -(q * q.log()).sum() * len(target)
    torch.testing.assert_close(got - entropy, arrays["out.joeynmt_sum"], rtol=1e-5, atol=1e-5)
    (gradient,) = torch.autograd.grad(got, hidden)
    torch.testing.assert_close(gradient, arrays["grad.joeynmt_sum"][valid], rtol=1e-5, atol=1e-6)


def test_on_a_cpu_autocast_changes_neither_the_loss_nor_its_gradients():
    torch.manual_seed(0)
    hidden, weight = (torch.randn(n, 16, requires_grad=True) for n in (64, 37))
    target = torch.randint(1, 37, (64,))
    wanted, _ = cross_entropy(hidden, weight, target, 0.1, pad=0)
    gradients = torch.autograd.grad(wanted, (hidden, weight))
    with torch.autocast("cpu", torch.bfloat16):
        got, _ = cross_entropy(hidden, weight, target, 0.1, pad=0)
    torch.testing.assert_close(got, wanted)
    torch.testing.assert_close(torch.autograd.grad(got, (hidden, weight)), gradients)
