"""Every component computes in at least fp32, keeps float64, and trains in every dtype."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from tests.every_component import DIM, every_component, inputs, made, outputs


def loss(outs: list[Tensor]) -> Tensor:
    """A scalar with a slope of its own for each number, in float64."""
    torch.manual_seed(2)
    return torch.stack([(x * torch.randn(x.shape, dtype=torch.float64)).sum() for x in outs]).sum()


def results(kind: str, name: str, dtype: torch.dtype) -> tuple[list[Tensor], list[Tensor | None]]:
    """Outputs and gradients with weights and inputs of one dtype."""
    module = made(kind, name).to(dtype)
    given = [x.detach().to(dtype).requires_grad_() for x in inputs(kind)]
    with Float64Only() if dtype == torch.float64 else nullcontext():
        outs = outputs(module, given)
        value, wanted = loss(outs), [*given, *module.parameters()]
        if not value.requires_grad:
            return outs, []
        return outs, list(torch.autograd.grad(value, wanted, allow_unused=True))


@every_component
def test_float64_is_computed_in_float64(kind: str, name: str) -> None:
    """No operation returns fp32, forward or backward."""
    if name == "relative_bias":
        pytest.skip("buckets are integers; their logarithm is taken in fp32, as T5 does")
    outs, grads = results(kind, name, torch.float64)
    for x in (*outs, *grads):
        assert x is None or x.dtype == torch.float64


class Float64Only(TorchDispatchMode):
    """Raises when an operation returns a floating-point tensor of another dtype."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for x in out if isinstance(out, list | tuple) else [out]:
            if isinstance(x, Tensor) and x.is_floating_point() and x.numel():
                assert x.dtype == torch.float64, f"{func} returned {x.dtype}"
        return out


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@every_component
def test_weights_of_every_dtype_train_on_a_cpu(kind: str, name: str, dtype: torch.dtype) -> None:
    """The output has the input's dtype, and is within rounding of float64 computed from the same
    weights.
    """
    outs, grads = results(kind, name, dtype)
    module = made(kind, name).to(dtype).double()
    given = [x.detach().to(dtype).double().requires_grad_() for x in inputs(kind)]
    exact = outputs(module, given)
    for x, right in zip(outs, exact, strict=True):
        assert x.dtype == dtype or (kind == "position" and x.dtype == torch.float32)
        assert_close(x.double(), right, **limit(dtype, right))
    if grads:
        wanted = torch.autograd.grad(loss(exact), [*given, *module.parameters()], allow_unused=True)
        for x, y in zip(grads, wanted, strict=True):
            assert (x is None) == (y is None)
            if x is not None and y is not None:
                assert x.dtype == dtype
                assert_close(x.double(), y, **limit(dtype, y))


def limit(dtype: torch.dtype, right: Tensor) -> dict[str, float]:
    """A chain of about 16 roundings, measured by the largest number."""
    return {
        "atol": 16 * torch.finfo(dtype).eps * max(1.0, float(right.detach().abs().max())),
        "rtol": 0.0,
    }


def test_weight_gradients_of_half_precision_are_summed_in_fp32() -> None:
    """Thousands of tokens that agree: a sum in bf16 would stop growing at 256 terms."""
    for kind, name in (
        ("norm", "rms"),
        ("norm", "layer"),
        ("norm", "instance"),
        ("position", "index"),
    ):
        module = made(kind, name).bfloat16()
        x = torch.ones(64, 64, DIM, dtype=torch.bfloat16)
        x[:, ::2] = -1
        x[..., ::2] *= -1
        pos = torch.ones(64, 64, dtype=torch.int64)
        out = module(x) if kind == "norm" else module.embed(x * 0, pos)
        parameter = next(iter(module.parameters()))
        (grad,) = torch.autograd.grad(out, parameter, x if kind == "norm" else torch.ones_like(x))
        assert_close(grad.float().abs(), torch.full((DIM,), 4096.0), rtol=0.01, atol=0.0)
