"""Every component keeps float64, and sums in at least fp32."""

from itertools import chain

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from tfzoo.base.registry import registry
from tfzoo.testing.component import rounded
from tfzoo.testing.contract import assert_same, reproducible
from tfzoo.testing.samples import COMPONENT_KINDS, D, build_randomized

ENTRIES = [
    registry(kind).entry(name) for kind in COMPONENT_KINDS for name in registry(kind).names()
]
every_component = pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: f"{e.kind}-{e.name}")


@pytest.fixture(autouse=True)
def as_contracts_run():
    """In float64, from one seed."""
    with reproducible():
        yield


@every_component
def test_float64_is_computed_in_float64(entry):
    """No operation returns fp32, forward or backward."""
    if entry.name == "relative_bias":
        pytest.skip("buckets are integers; their logarithm is taken in fp32, as T5 does")
    with Float64Only():
        outs, gradients = rounded(entry, torch.float64, torch.float64)
        for x in (*outs, *gradients):
            assert x.dtype == torch.float64


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
def test_outputs_and_gradients_of_every_dtype_are_close_to_those_of_float64(entry, dtype):
    found, wanted = ([*chain(*rounded(entry, dtype, wide))] for wide in (dtype, torch.float64))
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype in (dtype, torch.float32), "such as a bias of scores"
        assert_same(one, other, str(dtype), 16 * torch.finfo(dtype).eps)


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
