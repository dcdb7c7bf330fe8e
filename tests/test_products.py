"""Products by oneDNN, where it is chosen, are those of PyTorch."""

from copy import deepcopy

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import tfzoo
from tfzoo.base import adapters
from tfzoo.base import linear as module
from tfzoo.base.linear import linear
from tfzoo.base.special_ids import OWN
from tfzoo.search import Search, search

pytestmark = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="no oneDNN")


@pytest.fixture
def chosen(monkeypatch):
    """oneDNN on any processor, for any size; the inputs of its products."""
    seen = []
    by_onednn = adapters.onednn_linear

    def noted(x, *more):
        seen.append(x)
        return by_onednn(x, *more)

    monkeypatch.setattr(module, "smallest", lambda training: 1)
    monkeypatch.setattr(adapters, "onednn_linear", noted)
    return seen


BOUND = 1000 * torch.finfo(torch.float32).eps
"""Of the largest entry: fewer than 1,000 roundings of fp32 lie between an input and a result."""


def inputs(*shape):
    torch.manual_seed(0)
    x = torch.randn(*shape, 24).transpose(0, -2).requires_grad_()
    return x, nn.Parameter(torch.randn(40, 24)), nn.Parameter(torch.randn(40))


@pytest.mark.parametrize("again", [False, True], ids=["once", "twice"])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("shape", [(7,), (3, 5), (2, 0, 3)], ids=str)
def test_values_and_gradients(shape, bias, again, chosen):
    rounded = inputs(*shape)[: 2 + bias]
    exact = [one.double() for one in rounded]
    results = []
    for function, given in ((linear, rounded), (nn.functional.linear, exact)):
        y = function(*given)
        total = y.square().sum() if again else y.sum()  # of a sum, the gradient is one number
        first = torch.autograd.grad(total, given, create_graph=again)
        results.append([y, *first])
        if again:
            squares = torch.stack([one.square().sum() for one in first]).sum()
            results[-1] += torch.autograd.grad(squares, given)
    assert bool(chosen) == (0 not in shape)
    for one, wanted in zip(*results, strict=True):
        largest = wanted.abs().max() if wanted.numel() else 1.0
        assert_close(one.double(), wanted, rtol=0, atol=float(BOUND * largest))


def test_only_what_needs_a_gradient_gets_one(chosen):
    x, weight, _ = inputs(3, 5)
    linear(x.detach(), weight).sum().backward()
    assert (len(chosen), x.grad) == (2, None)
    linear(x, weight.detach()).sum().backward()
    assert len(chosen) == 4


def test_other_tensors_are_left_to_pytorch(chosen):
    x, weight, _ = inputs(3, 5)
    linear(x.double(), weight.double())
    linear(x.to("meta"), weight.to("meta"))
    with torch.autocast("cpu", torch.bfloat16):
        assert linear(x, weight).dtype == torch.bfloat16
    torch.func.vmap(linear, in_dims=(0, None))(x, weight)
    torch.compile(linear, backend="eager", fullgraph=True)(x, weight)
    assert not chosen


@pytest.mark.parametrize("beam", [1, 3])
def test_search_copies_each_weight_once_and_reads_those_of_its_time(beam, chosen, monkeypatch):
    copied, copy = [], adapters.in_onednn_order
    monkeypatch.setattr(adapters, "in_onednn_order", lambda one: copied.append(one) or copy(one))
    torch.manual_seed(0)
    model = tfzoo.Transformer(40, 24, 2, 1).eval()
    source, options = torch.randint(4, 40, (3, 5)), Search(beam, max_length=1.0)
    for _ in range(2):
        copied.clear()
        found = search(model, source, options, special=OWN)
        assert 0 < len(copied) == len({id(one) for one in copied})
        exact = search(deepcopy(model).double(), source, options, special=OWN)
        assert [one[0].ids for one in found] == [one[0].ids for one in exact]
        for parameter in model.parameters():
            parameter.data.mul_(-1.5)


def test_copies_end_at_their_limit(chosen, monkeypatch):
    monkeypatch.setattr(module, "COPIED", 40 * 24)
    x, first, second = inputs(3, 5)
    with torch.no_grad(), module.constant_weights():
        assert module.packed(first) is not first
        assert module.packed(second) is second
        assert_close(linear(x, first), nn.functional.linear(x, first))
