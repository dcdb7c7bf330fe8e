"""What the backward of a feed-forward layer keeps, and that it is right."""

import pytest
import torch
from torch import nn

from tfzoo.base.recomputed import LinearOf, linear_of
from tfzoo.base.registry import create, registry

X = torch.randn(3, 7, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
WIDTHS = {
    **dict.fromkeys(("gelu", "silu", "relu", "relu_squared"), 16),
    **dict.fromkeys(("geglu", "swiglu", "reglu", "bilinear"), 32),
}
"""What is kept of a token with ``hidden: 16`` beside the input, in numbers."""


def layer(name):
    torch.manual_seed(0)
    return create("feedforward", {"name": name, "hidden": 16}, dim=8).double()


def kept(module, x):
    """The numbers that the backward keeps beside parameters and ``x``."""
    known = {one.data_ptr() for one in (*module.parameters(), x)}
    found = {}

    def pack(value):
        storage = value.untyped_storage()
        if storage.data_ptr() not in known:
            found[storage.data_ptr()] = value, storage.nbytes() // value.element_size()
        return value

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda value: value):
        out = module(x)
    del out
    return sum(size for _, size in found.values())


@pytest.mark.parametrize("name", WIDTHS)
def test_the_input_of_the_activation_alone_is_kept(name):
    assert kept(layer(name), X.clone().requires_grad_()) == X[..., 0].numel() * WIDTHS[name]
    assert {*registry("feedforward").names()} - {*WIDTHS} == {"mixture", "none"}


@pytest.mark.parametrize("name", WIDTHS)
def test_gradients_are_those_of_the_formula_twice(name):
    found = []
    for plain in (False, True):
        module, x = layer(name), X.clone().requires_grad_()
        if plain:
            module.outer.register_forward_hook(lambda *given: None)
        wanted = [x, *module.parameters()]
        for again in (False, True):
            loss = module(x).square().sum()
            first = torch.autograd.grad(loss, wanted, create_graph=again)
            found.append([*first])
        found[-1] += torch.autograd.grad(sum(one.square().sum() for one in first), wanted)
    for one, other in zip(found[:2], found[2:], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(found[0], found[1][: len(found[0])], rtol=1e-12, atol=1e-12)


def test_under_autocast_gradients_are_those_of_the_formula():
    found = []
    for plain in (False, True):
        module, x = layer("swiglu").float(), X.float().requires_grad_()
        if plain:
            module.outer.register_forward_hook(lambda *given: None)
        with torch.autocast("cpu", torch.bfloat16):
            out = module(x)
        assert out.dtype == torch.bfloat16
        found.append(torch.autograd.grad(out.float().square().sum(), [x, *module.parameters()]))
    torch.testing.assert_close(found[0], found[1], rtol=2e-2, atol=2e-2)
    assert all(one.dtype == torch.float32 for one in found[0])


class Other(nn.Linear):
    """A layer that stands in for the outer one."""


def hooked(linear):
    linear.register_forward_hook(lambda *given: None)
    return linear


def patched(linear):
    linear.forward = lambda x: x
    return linear


def frozen(linear):
    return linear.requires_grad_(False)


ASIDE = [
    hooked,
    patched,
    frozen,
    lambda linear: Other(16, 16),
    nn.utils.parametrizations.orthogonal,
]


@pytest.mark.parametrize("change", ASIDE)
def test_a_module_that_is_not_plain_is_called(change):
    linear = change(nn.Linear(16, 16))
    z = torch.randn(2, 16, requires_grad=True)
    assert not isinstance(linear_of(torch.sin, z, linear).grad_fn, LinearOf._backward_cls)
    plain = linear_of(torch.sin, z, nn.Linear(16, 16))
    assert isinstance(plain.grad_fn, LinearOf._backward_cls)
