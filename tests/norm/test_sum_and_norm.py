"""A residual connection's sum and its norm in one kernel are what they are one after the other, and
the kernel steps aside where somebody else has a say. Tried in Triton's interpreter and compiler,
which need no GPU.

    TRITON_INTERPRET=1 pytest -m nightly tests/norm/test_sum_and_norm.py
"""

from typing import Any

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from tests.exact import close
from tests.in_triton import compile_for_cuda, needs_interpreter
from tfzoo.base import kernels, sum_and_norm
from tfzoo.base.registry import create, registry
from tfzoo.base.sum_and_norm import fused_applies

NORMS: dict[str, dict[str, Any]] = {
    "rms": {"name": "rms"},
    "centred rms": {"name": "rms", "centred": True, "eps": 1e-3},
    "layer": {"name": "layer"},
    "layer without bias": {"name": "layer", "bias": False},
}


@pytest.fixture
def as_on_cuda(monkeypatch):
    """Also in float64, for small texts, and in several programs of several tokens."""
    needs_interpreter()
    from tfzoo.norm import _norm_triton

    monkeypatch.setattr(kernels, "triton_applies", lambda *inputs: True)
    monkeypatch.setattr(sum_and_norm, "LARGE", 0)
    monkeypatch.setattr(_norm_triton, "PROGRAMS", 4)


def both(norm, x, branch):
    """In the kernel."""
    assert fused_applies(norm, x, branch)
    return sum_and_norm.sum_and_norm(norm, x, branch, None)


def plain(norm, x, branch):
    """One after the other."""
    total = x if branch is None else x + branch
    return total, norm(total)


def made(name, width, dtype):
    norm = create("norm", NORMS[name], dim=width).to(dtype)
    with torch.no_grad():
        for one in norm.parameters():
            one.add_(torch.randn(width, generator=torch.Generator().manual_seed(1)))
    return norm


def results(outputs, name, drawn, dtype, used):
    """Sum, norm, and all gradients, where the sum (1), the norm (2) or both (3) are used."""
    x, branch = (None if g is None else g.detach().to(dtype).requires_grad_() for g in drawn)
    assert x is not None
    norm = made(name, x.shape[-1], dtype)
    found = outputs(norm, x, branch)
    draw = torch.Generator().manual_seed(2)
    slopes = [torch.randn(x.shape, generator=draw, dtype=torch.float64).to(dtype) for _ in found]
    some = [n for n in range(2) if used >> n & 1]
    through = [one for one in (x, branch, *norm.parameters()) if one is not None]
    grads = torch.autograd.grad(
        [found[n] for n in some], through, [slopes[n] for n in some], materialize_grads=True
    )
    assert all(one.dtype == dtype for one in (*found, *grads))
    return [one.detach().double() for one in (*found, *grads)]


@pytest.mark.nightly
@pytest.mark.usefixtures("as_on_cuda")
@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize(
    ("shape", "scale"),
    [((2, 5, 8), 1.0), ((1, 1, 1), 1.0), ((3, 7, 33), 1e4), ((2, 3, 70), 1e-4), ((1, 9, 5), 1e9)],
)
def test_sum_norm_and_gradients(name, shape, scale):
    draw = torch.Generator().manual_seed(0)
    x = scale * torch.randn(shape, generator=draw, dtype=torch.float64)
    branch = scale * torch.randn(shape[::-1], generator=draw, dtype=torch.float64).mT.mT
    branch = branch.permute(2, 1, 0)  # not in the order of memory
    for dtype, limit in ((torch.float64, 1e-9), (torch.float32, 2e-5)):
        for other, used in ((branch, 3), (branch, 2), (branch, 1), (None, 3), (None, 2)):
            given = [x.to(dtype), None if other is None else other.to(dtype)]
            found = results(both, name, given, dtype, used)
            wanted = results(plain, name, [g if g is None else g.double() for g in given],
                             torch.float64, used)  # fmt: skip
            for one, exact in zip(found, wanted, strict=True):
                size = max(1.0, float(exact.abs().max()))
                assert_close(one, exact, atol=limit * size, rtol=0.0)


@pytest.mark.nightly
@pytest.mark.usefixtures("as_on_cuda")
@pytest.mark.parametrize("name", NORMS)
def test_bf16_and_two_dtypes(name):
    """Triton's interpreter rounds to bf16 towards zero. Under autocast, bf16 is added to fp32."""
    draw = torch.Generator().manual_seed(0)
    x, branch = (torch.randn(4, 6, 32, generator=draw) for _ in range(2))
    half = [x.bfloat16(), branch.bfloat16()]
    found = results(both, name, [*half], torch.bfloat16, 3)
    wanted = results(plain, name, [*half], torch.bfloat16, 3)
    for one, other in zip(found, wanted, strict=True):
        assert_close(one, other, atol=0.02 * max(1.0, float(other.abs().max())), rtol=0.0)
    norm = made(name, 32, torch.float32)
    mixed = [x.requires_grad_(), half[1].requires_grad_()]
    for ours, theirs in zip(both(norm, *mixed), plain(norm, *mixed), strict=True):
        assert ours.dtype == theirs.dtype == torch.float32
        assert_close(ours, theirs, atol=1e-5, rtol=0.0)
    slopes = torch.autograd.grad(both(norm, *mixed)[1].sum(), mixed)
    assert [one.dtype for one in slopes] == [torch.float32, torch.bfloat16]


@pytest.mark.nightly
@pytest.mark.usefixtures("as_on_cuda")
@pytest.mark.parametrize("name", NORMS)
def test_second_derivatives(name):
    draw = torch.Generator().manual_seed(0)
    x, branch, slope = (
        torch.randn(2, 3, 4, generator=draw, dtype=torch.float64, requires_grad=True)
        for _ in range(3)
    )
    norm, seconds = made(name, 4, torch.float64), []
    for outputs in (both, plain):
        total, y = outputs(norm, x, branch)
        through = [x, branch, *norm.parameters()]
        first = torch.autograd.grad([total, y], through, [slope.cos(), slope], create_graph=True)
        loss = torch.stack([one.square().sum() for one in first]).sum()
        seconds.append(torch.autograd.grad(loss, [x, branch, slope, *norm.parameters()],
                                           allow_unused=True, materialize_grads=True))  # fmt: skip
    for one, other in zip(*seconds, strict=True):
        close(one, other)


@pytest.mark.nightly
@pytest.mark.usefixtures("as_on_cuda")
@pytest.mark.parametrize("residual", ["pre", "post", "deepnorm"])
@pytest.mark.parametrize("norm", ["rms", "layer"])
def test_residual_connections_use_it(norm, residual, monkeypatch):
    class Inner(nn.Linear):
        pass

    inner = Inner(8, 8).double()
    supplied = {"inner": inner, "dropout": 0.0, "dim": 8, "norm": norm}
    part = create("residual", residual, layer=0, layers=2, cross=False, decoder_layers=0,
                  **supplied).double()  # fmt: skip
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(2, 5, 8, generator=draw, dtype=torch.float64, requires_grad=True)
    slope = torch.randn(2, 5, 8, generator=draw, dtype=torch.float64)
    found = []
    for applies in (True, False):
        monkeypatch.setattr(kernels, "triton_applies", lambda *inputs, yes=applies: yes)
        out = part(x)
        assert ("SumAndNorm" in str(graph_of(out))) is applies
        found.append((out, *torch.autograd.grad(out, [x, *part.parameters()], slope)))
    for one, other in zip(*found, strict=True):
        assert_close(one, other, atol=1e-12, rtol=0.0)


def graph_of(out):
    """The names of all operations that lead to a tensor."""
    names, open_nodes = [], [out.grad_fn]
    while open_nodes:
        node = open_nodes.pop()
        if node is not None:
            names.append(node.name())
            open_nodes += [one for one, _ in node.next_functions]
    return names


@pytest.mark.nightly
def test_the_compiler_for_cuda_takes_the_kernels(tmp_path):
    cases = []
    for kind, sums, centre, biased in (
        ("*fp32", True, True, True),
        ("*fp32", False, True, False),
        ("*bf16", True, False, False),
    ):
        tensors = ("x", "branch", "total", "out", "grad", "of_sum", "of_total")
        wide = ("weight", "bias", "mean", "rstd", "of_weight", "of_bias")
        types = dict.fromkeys(tensors, kind) | dict.fromkeys(wide, "*fp32")
        kinds = {"centre": centre, "biased": biased, "block": 512}
        cases += [
            ("forward_kernel", types, {**kinds, "sums": sums, "eps": 1e-6}),
            ("backward_kernel", types, {**kinds, "joined": sums}),
        ]
    compile_for_cuda("tfzoo.norm._norm_triton", cases, tmp_path)


def test_it_steps_aside_where_others_have_a_say(monkeypatch):
    x = torch.zeros(2, 3, 4)
    norm = create("norm", "rms", dim=4)
    assert not fused_applies(norm, x, x), "on a CPU"
    monkeypatch.setattr(kernels, "triton_applies", lambda *inputs: True)
    assert not fused_applies(norm, x, x), "too small"
    monkeypatch.setattr(sum_and_norm, "LARGE", 0)
    assert fused_applies(norm, x, x)
    assert fused_applies(norm, x, None)
    assert not fused_applies(norm, x, x[:1]), "a branch that is broadcast"
    assert not fused_applies(nn.LayerNorm(4), x, x), "a stranger's"
    without = {name for name in registry("norm").names()
               if not fused_applies(create("norm", name, dim=4), x, x)}  # fmt: skip
    assert without == {*registry("norm").names()} - {"rms", "layer"}

    class Own(type(norm)):
        def forward(self, x, valid=None):
            return 2 * x

    own = create("norm", "rms", dim=4)
    own.__class__ = Own
    assert not fused_applies(own, x, x), "a subclass may compute something else"
    handles = [
        lambda one: one.register_forward_hook(lambda *given: None),
        lambda one: one.register_forward_pre_hook(lambda *given: None),
        lambda one: one.register_full_backward_hook(lambda *given: None),
    ]
    for register in handles:
        handle = register(norm)
        assert not fused_applies(norm, x, x), "a hook would not be called"
        handle.remove()
    assert fused_applies(norm, x, x)
    nn.utils.parametrize.register_parametrization(norm, "weight", nn.Identity())
    assert not fused_applies(norm, x, x), "a parametrization makes a class of its own"
    patched = create("norm", "layer", dim=4)
    patched.forward = lambda x, valid=None: x
    assert not fused_applies(patched, x, x), "its forward was replaced"
