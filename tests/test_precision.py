"""Every component computes in at least fp32, keeps float64, and trains in every dtype."""

from contextlib import nullcontext

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from tfzoo.base.registry import registry
from tfzoo.testing.contract import reproducible
from tfzoo.testing.samples import COMPONENT_KINDS, PROBES, D, build_randomized, inputs

ENTRIES = [
    registry(kind).entry(name) for kind in COMPONENT_KINDS for name in registry(kind).names()
]
every_component = pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: f"{e.kind}-{e.name}")


@pytest.fixture(autouse=True)
def as_contracts_run():
    """In float64, from one seed."""
    with reproducible():
        yield


def loss(outs):
    """A scalar with a slope of its own for each number, in float64."""
    torch.manual_seed(2)
    return torch.stack([(x * torch.randn(x.shape, dtype=torch.float64)).sum() for x in outs]).sum()


def results(entry, rounded, dtype):
    """Outputs and gradients of weights and inputs, rounded to one dtype, in another."""
    torch.manual_seed(0)
    module = build_randomized(entry).to(rounded).to(dtype)
    given = {
        name: one.to(rounded).to(dtype).requires_grad_() if one.is_floating_point() else one
        for name, one in inputs().items()
    }
    with Float64Only() if dtype == rounded == torch.float64 else nullcontext():
        outs = PROBES[entry.kind](module, given)
        value = loss(outs)
        wanted = [*(one for one in given.values() if one.requires_grad), *module.parameters()]
        if not value.requires_grad:
            return outs, []
        return outs, list(torch.autograd.grad(value, wanted, allow_unused=True))


@every_component
def test_float64_is_computed_in_float64(entry):
    """No operation returns fp32, forward or backward."""
    if entry.name == "relative_bias":
        pytest.skip("buckets are integers; their logarithm is taken in fp32, as T5 does")
    outs, grads = results(entry, torch.float64, torch.float64)
    for x in (*outs, *grads):
        assert x is None or x.dtype == torch.float64


class Float64Only(TorchDispatchMode):
    """Raises when an operation returns a floating-point tensor of another dtype."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for x in out if isinstance(out, list | tuple) else [out]:
            if isinstance(x, Tensor) and x.is_floating_point() and x.numel():
                assert x.dtype == torch.float64, f"{func} returned {x.dtype}"
        return out


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@every_component
def test_weights_of_every_dtype_train_on_a_cpu(entry, dtype):
    """In the input's dtype, within rounding of float64 from the same weights."""
    outs, grads = results(entry, dtype, dtype)
    exact, wanted = results(entry, dtype, torch.float64)
    assert outs[0].dtype == dtype
    for x, right in zip(outs, exact, strict=True):
        assert x.dtype in (dtype, torch.float32), "such as a bias of scores"
        assert_close(x.double(), right, **limit(dtype, right))
    for x, y in zip(grads, wanted, strict=True):
        assert (x is None) == (y is None)
        if x is not None and y is not None:
            assert x.dtype == dtype
            assert_close(x.double(), y, **limit(dtype, y))


def limit(dtype, right):
    """A chain of about 16 roundings, measured by the largest number."""
    largest = max(1.0, float(right.detach().abs().max()))
    return {"atol": 16 * torch.finfo(dtype).eps * largest, "rtol": 0.0}


def test_weight_gradients_of_half_precision_are_summed_in_fp32():
    """Thousands of tokens that agree: a sum in bf16 would stop growing at 256 terms."""
    norms = [("norm", name) for name in ("rms", "layer", "instance")]
    for kind, name in (*norms, ("position", "index")):
        module = build_randomized(registry(kind).entry(name)).bfloat16()
        x = torch.ones(64, 64, D, dtype=torch.bfloat16)
        x[:, ::2] = -1
        x[..., ::2] *= -1
        pos = torch.ones(64, 64, dtype=torch.int64)
        out = module(x) if kind == "norm" else module.embed(x * 0, pos)
        parameter = next(iter(module.parameters()))
        (grad,) = torch.autograd.grad(out, parameter, x if kind == "norm" else torch.ones_like(x))
        assert_close(grad.double().abs(), torch.full((D,), 4096.0), rtol=0.01, atol=0.0)
