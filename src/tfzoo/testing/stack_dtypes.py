"""Contracts about the dtype of every stack and translator."""

from __future__ import annotations

import torch
from torch import Tensor

from tfzoo.contracts import Component
from tfzoo.testing.contract import Violation, assert_finite
from tfzoo.testing.subject import FULL, TEXT, Subject

ROUNDINGS = 8
"""Autocast rounds the input, the weight, the output and the sum after each product: four times as
often as the weights alone are, and twice that is allowed.
"""


def half_precision_under_autocast_is_close(subject: Subject) -> None:
    """Under bf16 autocast, outputs are off by no more than a few roundings of the weights cost.
    With a discontinuous part, in the median over tokens, as rounding moves some across a jump.
    """
    jumps = any(
        isinstance(part, Component) and "discontinuous" in part.entry.traits
        for part in subject.module.modules()
    )

    def size(difference: Tensor) -> Tensor:
        norms = torch.linalg.vector_norm(difference, dim=-1)
        found: Tensor = norms.median() if jumps else torch.linalg.vector_norm(norms)
        return found

    # Long texts: a norm over two tokens makes differences of any size large.
    exact = subject(FULL, "none", FULL, "none")
    with subject.converted(torch.float64):
        for parameter in subject.module.parameters():
            parameter.copy_(parameter.bfloat16())
        rounded = subject(FULL, "none", FULL, "none")
    with subject.converted(torch.float32), torch.autocast("cpu", torch.bfloat16):
        out = subject(FULL, "none", FULL, "none").double()
    off, once = size(out - exact), size(rounded - exact)
    if not off <= ROUNDINGS * once + torch.finfo(torch.bfloat16).eps * size(exact):
        raise Violation(f"bfloat16 is off by {(off / size(exact)).item():.0%}")


def weights_of_every_dtype_train(subject: Subject) -> None:
    """With weights in bf16, fp16 and fp32, a training step gives finite outputs and gradients."""
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        with subject.training(), subject.converted(dtype), torch.enable_grad():
            out = subject(TEXT)
            if out.dtype != dtype:
                raise Violation(f"weights in {dtype}, output in {out.dtype}")
            assert_finite(out, f"output in {dtype}")
            if not out.requires_grad:
                continue
            named = dict(subject.module.named_parameters())
            found = torch.autograd.grad(
                out.float().square().mean(), list(named.values()), allow_unused=True
            )
            for name, gradient in zip(named, found, strict=True):
                if gradient is not None:
                    assert_finite(gradient, f"gradient of {name} in {dtype}")
