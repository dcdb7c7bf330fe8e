"""Every component can be differentiated twice, transformed by ``torch.func``, and exported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import gradcheck, gradgradcheck
from torch.func import functional_call, grad, jvp, vmap
from torch.testing import assert_close

from tests.daily import sampled
from tests.every_component import (
    DIM,
    SUPPLIED,
    B,
    C,
    H,
    every_component,
    inputs,
    made,
    outputs,
)
from tfzoo.attention import _tanh_scores
from tfzoo.base import rotation
from tfzoo.base.adapters import transforms_active
from tfzoo.base.custom_autograd import custom_functions_apply
from tfzoo.base.dropout import dropout
from tfzoo.base.registry import registry
from tfzoo.masks import Mask
from tfzoo.norm._rms_kernel import rms_norm

Function = Callable[..., tuple[Tensor, ...]]


@pytest.fixture(autouse=True)
def kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_tanh_scores, "SMALL", 0)


def as_function(kind: str, name: str) -> tuple[Function, list[Tensor]]:
    """A component in float64 as a function of its inputs and parameters. Batch norm is as in
    evaluation, because it counts in place.
    """
    module, given = made(kind, name).double().eval(), inputs(kind)
    names, start = [n for n, _ in module.named_parameters()], len(given)

    def function(*tensors: Tensor) -> tuple[Tensor, ...]:
        class Called(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.inner = module

            def forward(self, *given: Tensor) -> list[Tensor]:
                return outputs(self.inner, list(given))

        parameters = dict(zip([f"inner.{n}" for n in names], tensors[start:], strict=True))
        outs = functional_call(Called(), parameters, tensors[:start])
        return tuple(x for x in outs if x.requires_grad or transforms_active())

    return function, [*given, *(p.detach().requires_grad_() for p in module.parameters())]


def scalar(function: Function) -> Callable[..., Tensor]:
    return lambda *tensors: torch.stack([x.sin().sum() for x in function(*tensors)]).sum()


@every_component
def test_first_and_second_derivatives_are_right(kind: str, name: str) -> None:
    """Along one random direction each (``fast_mode``), against finite differences in float64."""
    function, tensors = as_function(kind, name)
    if not function(*tensors):
        return
    assert gradcheck(function, tensors, fast_mode=True)
    assert gradgradcheck(function, tensors, fast_mode=True)


@every_component
def test_torch_func_computes_what_autograd_does(kind: str, name: str) -> None:
    function, tensors = as_function(kind, name)
    if not function(*tensors):
        return
    loss = scalar(function)
    places = tuple(range(len(tensors)))
    found = grad(loss, argnums=places)(*tensors)
    wanted = torch.autograd.grad(loss(*tensors), tensors, allow_unused=True, materialize_grads=True)
    for one, other in zip(found, wanted, strict=True):
        assert_close(one, other, atol=1e-9, rtol=1e-9)
    directions = tuple(torch.randn_like(x) for x in tensors)
    _, slope = jvp(loss, tuple(tensors), directions)
    expected = sum((x * y).sum() for x, y in zip(wanted, directions, strict=True))
    assert_close(slope, expected, atol=1e-9, rtol=1e-9)


@every_component
def test_gradients_of_each_example_are_those_of_each_alone(kind: str, name: str) -> None:
    """``vmap(grad(...))``, as differential privacy wants it."""
    function, tensors = as_function(kind, name)
    if not function(*tensors):
        return
    loss = scalar(function)
    many = torch.stack([tensors[0], tensors[0].flip(1)])
    found = vmap(lambda x: grad(loss)(x, *tensors[1:]))(many)
    for one, x in zip(found, many, strict=True):
        assert_close(one, grad(loss)(x, *tensors[1:]), atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("name", registry("attention").names())
@pytest.mark.parametrize("n", [20, 130])
def test_torch_func_differentiates_attention_over_longer_texts(name: str, n: int) -> None:
    """In forward mode and twice, where PyTorch's fused kernels have no derivative."""
    attention, (q, k, v, d) = made("attention", name).double(), drawn(4, 1, H, n, C).detach()

    def loss(q: Tensor) -> Tensor:
        return attention(q, k, v, mask=Mask(causal=True)).sin().sum()

    def slope(q: Tensor) -> Tensor:
        return (grad(loss)(q) * d).sum()

    assert_close(jvp(loss, (q,), (d,))[1], slope(q), atol=1e-9, rtol=1e-9)
    _, curvature = jvp(lambda q: jvp(loss, (q,), (d,))[1], (q,), (d,))
    assert_close(curvature, (grad(slope)(q) * d).sum(), atol=1e-9, rtol=1e-9)


def drawn(*shape: int) -> Tensor:
    torch.manual_seed(0)
    return torch.randn(shape, dtype=torch.float64).requires_grad_()


def dropped(x: Tensor) -> Tensor:
    torch.manual_seed(1)
    return dropout(x, 0.3)


def halves(x: Tensor) -> Tensor:
    return rotation.rotate_halves(x, drawn(1, 1, 3, 2).detach().cos(), drawn(1, 1, 3, 2).detach())


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda x, weight: rms_norm(x, weight, 1e-6), [(2, 3, 4), (4,)]),
        (halves, [(1, 2, 3, 4)]),
        (dropped, [(3, 4)]),
        (_tanh_scores.tanh_scores, [(1, 1, 3, 2), (1, 1, 4, 2), (1, 2)]),
        (_tanh_scores.tanh_scores, [(1, 1, 2, 1), (1, 1, 50, 1), (1, 1)]),
    ],
    ids=["rms", "rotary halves", "dropout", "tanh scores, narrow", "tanh scores, wide"],
)
def test_hand_written_backwards_are_right(function: Any, shapes: list[tuple[int, ...]]) -> None:
    given = [drawn(*shape) for shape in shapes]
    assert custom_functions_apply(*given)
    assert gradcheck(function, given)
    assert gradgradcheck(function, given)


def test_transforms_are_noticed() -> None:
    """By a private name of PyTorch, which has no public one."""
    seen = []

    def note(x: Tensor) -> Tensor:
        seen.append((transforms_active(), custom_functions_apply(x)))
        return x.sum()

    x = torch.ones(2, requires_grad=True)
    note(x)
    grad(note)(x)
    with torch.autograd.forward_ad.dual_level():
        note(torch.autograd.forward_ad.make_dual(x, x))
    assert seen == [(False, True), (True, False), (False, False)]


class Calls(nn.Module):
    """Every component of a kind with its mask, as a module of tensors."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.parts = nn.ModuleDict({name: made(kind, name) for name in registry(kind).names()})

    def forward(self, *given: Tensor) -> dict[str, list[Tensor]]:
        return {name: called(part, *given) for name, part in self.parts.items()}


def called(part: Any, *given: Tensor) -> list[Tensor]:
    *tensors, valid = given
    n, pos = valid.shape[1], torch.arange(valid.shape[1])[None]
    if len(tensors) == 3:
        return [part(*tensors, mask=Mask(True, valid)), part(*tensors, mask=Mask(True))]
    x = tensors[0]
    if hasattr(part, "embed"):
        outs = [part.embed(x, pos, valid.sum(1, keepdim=True)), part.bias(pos, pos)]
        angles = part.angles(pos)
        outs.append(angles and angles(x.view(B, n, H, C).transpose(1, 2)))
        return [one for one in outs if one is not None]
    return [part(x, valid=valid) if "valid" in forward_names(part) else part(x)]


def forward_names(module: nn.Module) -> tuple[str, ...]:
    return type(module).forward.__code__.co_varnames


@pytest.mark.parametrize("kind", sampled(SUPPLIED, ["norm", "feedforward"]))
def test_one_export_serves_all_lengths(kind: str) -> None:
    """All components of a kind in one graph, which costs less than one each."""
    module = Calls(kind).eval()

    def given(n: int) -> tuple[Tensor, ...]:
        torch.manual_seed(n)
        valid = torch.arange(n) < torch.tensor([[n], [n - 1]])
        if kind == "attention":
            return (*torch.randn(3, B, H, n, C).unbind(), valid)
        return torch.randn(B, n, DIM), valid

    n = torch.export.Dim("n", min=2, max=256)
    example = given(20)
    dynamic = ([{2 if kind == "attention" else 1: n} for _ in example[:-1]]) + [{1: n}]
    exported = torch.export.export(module, example, dynamic_shapes=(tuple(dynamic),)).module()
    for length in (2, 13, 130):
        assert_close(exported(*given(length)), module(*given(length)), atol=1e-5, rtol=1e-4)
