"""Contracts about the dtype of weights: each one trains, and float64 is kept."""

from __future__ import annotations

from itertools import product

import torch

from tfzoo.base.registry import Entry
from tfzoo.testing.contract import Violation, assert_finite, assert_same, contract, default_dtype
from tfzoo.testing.probes import PROBES, inputs
from tfzoo.testing.samples import COMPONENT_KINDS, build_randomized, variants

DTYPES = (torch.bfloat16, torch.float16, torch.float32, torch.float64)
every_component = contract(*COMPONENT_KINDS)


@every_component
def weights_of_every_dtype_train(entry: Entry) -> None:
    """With weights and inputs in bf16, fp16, fp32 or float64, a training step works, with each
    choice of an option: outputs have the dtype of the inputs or a wider one, gradients and updated
    weights are finite.
    """
    for options, dtype in product(variants(entry), DTYPES):
        module = build_randomized(entry, options).to(dtype)
        given = {
            name: one.to(dtype).requires_grad_() if one.is_floating_point() else one
            for name, one in inputs().items()
        }
        outs = PROBES[entry.kind](module, given)
        if outs[0].dtype != dtype:
            raise Violation(f"{dtype} in, {outs[0].dtype} out")
        for one in outs:
            if torch.promote_types(one.dtype, dtype) != one.dtype:
                raise Violation(f"{dtype} in, {one.dtype} out")
            assert_finite(one, f"output in {dtype}")
        # A sine: its slope is bounded, so that no gradient of a large output overflows in fp16.
        loss = torch.stack([one.float().sin().mean() for one in outs]).sum()
        if not loss.requires_grad:
            continue
        loss.backward()
        for name, parameter in module.named_parameters():
            if parameter.grad is not None:
                assert_finite(parameter.grad, f"gradient of {name} in {dtype}")
                with torch.no_grad():
                    parameter -= 0.01 * parameter.grad
                assert_finite(parameter, f"{name} after a step in {dtype}")
        for one in PROBES[entry.kind](module, given):
            assert_finite(one, f"output after a step in {dtype}")


@every_component
def float64_is_close_to_fp32(entry: Entry) -> None:
    """Built in fp32 and moved to float64, it computes in float64 what it computes in fp32, with
    each choice of an option.
    """
    for options in variants(entry):
        with default_dtype(torch.float32):
            module = build_randomized(entry, options)
        given = {
            name: one.float() if one.is_floating_point() else one for name, one in inputs().items()
        }
        single = PROBES[entry.kind](module, given)
        double = PROBES[entry.kind](
            module.double(),
            {name: one.double() if one.is_floating_point() else one for name, one in given.items()},
        )
        for one, other in zip(double, single, strict=True):
            assert_same(one, other, f"float64 and fp32 {options or ''}".rstrip(), 1e-4)
