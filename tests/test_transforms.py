"""Every component can be differentiated twice, transformed by ``torch.func``, and exported."""

import pytest
import torch
from torch import nn
from torch.autograd import gradcheck, gradgradcheck
from torch.func import functional_call, grad, jvp, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from tests.exact import close
from tfzoo.base.functional import dropout
from tfzoo.base.kernels import custom_functions_apply
from tfzoo.base.registry import registry
from tfzoo.components.attention import _tanh_scores
from tfzoo.components.norm.rms import rms_norm
from tfzoo.masks import Mask
from tfzoo.testing.component import differentiable
from tfzoo.testing.contract import reproducible
from tfzoo.testing.samples import HEADS, PROBES, WIDTH, build_randomized, inputs

KINDS = ("attention", "norm", "position", "feedforward", "pooling")
every_component = pytest.mark.parametrize(
    "entry",
    [registry(kind).entry(name) for kind in KINDS for name in registry(kind).names()],
    ids=lambda entry: f"{entry.kind}-{entry.name}",
)


@pytest.fixture(autouse=True)
def kernels(monkeypatch):
    monkeypatch.setattr(_tanh_scores, "SMALL", 0)
    monkeypatch.setattr("tfzoo.base.functional.LARGE", 0)
    monkeypatch.setitem(PROBES, "norm", evaluated)


def evaluated(norm, given):
    """A norm as in evaluation, because batch norm counts in place."""
    return [norm.eval()(given["x"], given["valid"])]


@every_component
def test_second_derivatives_are_right(entry):
    with reproducible(), sdpa_kernel(SDPBackend.MATH):  # PyTorch's fused kernels have no second one
        function, tensors = differentiable(entry)
        if function(*tensors) and "surrogate_gradient" not in entry.traits:
            gradgradcheck(function, tensors, fast_mode=True, check_undefined_grad=False)


@every_component
def test_gradients_of_each_example_are_those_of_each_alone(entry):
    """``vmap(grad(...))`` as for differential privacy, and a directional derivative."""
    with reproducible():
        module = build_randomized(entry).eval()
        drawn = inputs()
        given = {name: one for name, one in drawn.items() if one.is_floating_point()}
        start = dict(module.named_parameters())
        tensors = [one.detach().requires_grad_() for one in (*given.values(), *start.values())]

        def loss(*tensors):
            named = dict(zip([*given, *start], tensors, strict=True))
            parameters = {f"inner.{name}": named.pop(name) for name in start}
            outs = functional_call(Called(module, entry.kind), parameters, ({**drawn, **named},))
            return torch.stack([one.sin().sum() for one in outs]).sum()

        if not loss(*tensors).requires_grad:
            return
        places = tuple(range(len(tensors)))
        many = [torch.stack([one, one.flip(0)]) for one in tensors[: len(given)]]
        rows = (*(0 for _ in given), *(None for _ in start))
        found = vmap(grad(loss, argnums=places), in_dims=rows)(*many, *tensors[len(given) :])
        for row in range(2):
            alone = [one[row].detach().requires_grad_() for one in many] + tensors[len(given) :]
            wanted = torch.autograd.grad(loss(*alone), alone, materialize_grads=True)
            for one, other in zip(found, wanted, strict=True):
                close(one[row], other)
            directions = tuple(torch.randn_like(one) for one in alone)
            slope = sum((x * y).sum() for x, y in zip(wanted, directions, strict=True))
            close(jvp(loss, tuple(alone), directions)[1], slope)


class Called(nn.Module):
    """A component whose ``forward`` is all that it computes."""

    def __init__(self, inner: nn.Module, kind: str) -> None:
        super().__init__()
        self.inner, self.kind = inner, kind

    def forward(self, given):
        return PROBES[self.kind](self.inner, given)


@pytest.mark.parametrize("name", registry("attention").names())
@pytest.mark.parametrize("n", [20, 130])
def test_torch_func_differentiates_attention_over_longer_texts(name, n):
    """In forward mode and twice, where PyTorch's fused kernels have no derivative."""
    attention = build_randomized(registry("attention").entry(name)).double()
    q, k, v, d = drawn(4, 1, HEADS, n, WIDTH).detach()

    def loss(q):
        return attention(q, k, v, mask=Mask(causal=True)).sin().sum()

    def slope(q):
        return (grad(loss)(q) * d).sum()

    close(jvp(loss, (q,), (d,))[1], slope(q))
    _, curvature = jvp(lambda q: jvp(loss, (q,), (d,))[1], (q,), (d,))
    close(curvature, (grad(slope)(q) * d).sum())


def drawn(*shape):
    torch.manual_seed(0)
    return torch.randn(shape, dtype=torch.float64).requires_grad_()


def dropped(x):
    torch.manual_seed(1)
    return dropout(x, 0.3)


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda x, weight: rms_norm(x, weight, 1e-6), [(2, 3, 4), (4,)]),
        (dropped, [(3, 4)]),
        (_tanh_scores.tanh_scores, [(1, 1, 3, 2), (1, 1, 4, 2), (1, 2)]),
        (_tanh_scores.tanh_scores, [(1, 1, 2, 1), (1, 1, 50, 1), (1, 1)]),
    ],
    ids=["rms", "dropout", "tanh scores, narrow", "tanh scores, wide"],
)
def test_hand_written_backwards_are_right(function, shapes):
    given = [drawn(*shape) for shape in shapes]
    assert custom_functions_apply()
    assert gradcheck(function, given)
    assert gradgradcheck(function, given)
