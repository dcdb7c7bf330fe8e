"""Gradients reach every parameter, but for those that provably have no influence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from tfzoo.blocks.multihead import SelfOrCrossAttention
from tfzoo.blocks.stack import Stack
from tfzoo.blocks.transformer_layer import TransformerLayer
from tfzoo.contracts import FeedForward, Norm
from tfzoo.masks import Mask
from tfzoo.mixer.multihead import SelfAttention
from tfzoo.testing.contract import EXACT, Violation, assert_finite
from tfzoo.testing.samples import SIZES
from tfzoo.testing.subject import TEXT, Subject, hooks

NOTHING = 1e-11
"""A gradient is taken for zero if it is smaller than this, relative to the largest gradient that it
is compared with. A gradient that cancels is a sum of up to thousands of float64 terms, each with a
relative rounding error of 1e-16.
"""


def gradients_reach_every_parameter(subject: Subject) -> None:
    """In training, every parameter has a gradient, except where it provably has no influence."""
    with subject.training(), torch.enable_grad():
        out = subject(TEXT)
        out = out[TEXT != 0] if out.dim() == 3 else out
        named = dict(subject.module.named_parameters())
        found = torch.autograd.grad(
            (out * torch.randn_like(out)).sum(), list(named.values()), allow_unused=True
        )
        excused = excuses(subject)
    sizes = {
        name: 0.0 if gradient is None else gradient.abs().max().item()
        for name, gradient in zip(named, found, strict=True)
    }
    largest = max(sizes.values(), default=0.0)
    for (name, size), gradient in zip(sizes.items(), found, strict=True):
        if gradient is not None:
            assert_finite(gradient, f"gradient of {name}")
        nearby = max(other for near, other in sizes.items() if sublayer(near) == sublayer(name))
        if (size <= NOTHING * nearby or size == 0) and name not in excused:
            raise Violation(f"no gradient reaches {name} ({size:.2g})")
        if size > NOTHING * largest and name in excused:
            raise Violation(f"{name} has a gradient ({size:.2g}), although {excused[name]}")


def assert_gradients(found: Mapping[str, Tensor | None], where: str = "") -> None:
    """Raise :class:`Violation` unless every gradient is there, finite, and larger than the rounding
    of the largest. ``x`` may have none, as not everything depends on the text.
    """
    sizes = {name: one.abs().max().item() for name, one in found.items() if one is not None}
    largest = max(sizes.values(), default=0.0)
    for name, gradient in found.items():
        if gradient is None and name == "x":
            continue
        assert_finite(gradient, f"gradient of {name}{where}")
        if not sizes[name] > NOTHING * largest:
            raise Violation(f"no gradient reaches {name}{where}")


def sublayer(name: str) -> str:
    """The sublayer that a parameter belongs to. Gradients are compared within one, as without norms
    they differ in size from depth to depth.
    """
    return name.rpartition(".inner.")[0] or name


def excuses(subject: Subject) -> dict[str, str]:
    """Parameters of a model in training mode that have no influence, each with the reason, which is
    measured on the components themselves.
    """
    reasons: dict[str, str] = {}
    for name, stack in subject.module.named_modules():
        if isinstance(stack, Stack):
            found = _of_keys(stack) | _of_shifts(stack)
            reasons |= {
                f"{name}.{parameter}" if name else parameter: reason
                for parameter, reason in found.items()
            }
    return reasons | (_of_memory(*subject.stacks) if len(subject.stacks) > 1 else {})


def _of_keys(stack: Stack) -> dict[str, str]:
    """One vector added to all keys adds one number to all scores of a query, and a softmax
    cancels it.

    Not where keys are rotated afterwards, each by its own angle, and not in attentions that are not
    linear in the key.
    """
    found = {}
    turned = "angles" in hooks(stack.position.entry.name)
    for name, part in stack.named_modules():
        if (
            isinstance(part, SelfOrCrossAttention)
            and not (turned and isinstance(part, SelfAttention))
            and common_shift_cancels(part)
        ):
            found[f"{name}.key.bias"] = "one vector added to all keys changes no weight"
    return found


def _of_shifts(stack: Stack) -> dict[str, str]:
    """One vector added to all tokens is taken off again by a norm that subtracts the mean over
    tokens.
    """
    norms = [part for part in stack.modules() if isinstance(part, Norm)]
    if not norms or not subtracts_mean_over_tokens(norms[0]):
        return {}
    last_is_read = residual_of(stack) == "none"  # no norm follows the last sublayer
    constant = [
        parameter
        for block in _constants(stack)[: -1 if last_is_read else None]
        for parameter in block
    ]
    return dict.fromkeys(
        constant, "a vector added to all tokens is taken off by the norm that follows"
    )


def first_layer(stack: Stack) -> TransformerLayer:
    """The first layer."""
    layer = stack.layers[0]
    if not isinstance(layer, TransformerLayer):
        raise TypeError(f"a stack of {type(layer).__name__}")
    return layer


def residual_of(stack: Stack) -> str:
    """The name of the residual connection; all layers of a stack have the same components."""
    layer = first_layer(stack)
    for sublayer in (layer.self_attention, layer.cross_attention, layer.feedforward):
        if sublayer is not None:
            return sublayer.entry.name
    return "none"


def _constants(stack: Stack) -> list[list[str]]:
    """For each sublayer, the parameters that add one vector to all tokens."""
    found = []
    for name, part in stack.named_modules():
        if isinstance(part, FeedForward):
            found.append([f"{name}.{parameter}" for parameter in shifts(part)])
        elif isinstance(part, SelfOrCrossAttention):
            value = [f"{name}.value.bias"] if passes_shift_of_values(part) else []
            found.append([*value, f"{name}.output.bias"])
    return found


def _of_memory(encoder: Stack, decoder: Stack) -> dict[str, str]:
    """One vector added to all of the memory adds one to all keys, and through the values one to all
    tokens of the decoder.
    """
    cross = first_layer(decoder).cross_attention
    if (
        cross is None
        or not isinstance(cross.inner, SelfOrCrossAttention)
        or not common_shift_cancels(cross.inner)
        or not passes_shift_of_values(cross.inner)
    ):
        return {}
    norm = cross.norm
    if not isinstance(norm, Norm) or not subtracts_mean_over_tokens(norm):
        return {}
    if residual_of(decoder) == "none" and first_layer(decoder).feedforward is None:
        return {}  # the last cross-attention is read as it is
    norms = [f"{name}.bias" for name, part in encoder.named_modules() if isinstance(part, Norm)]
    names = _constants(encoder)[-1] if residual_of(decoder) == "none" else norms[-1:]
    return dict.fromkeys(
        [f"encoder.{name}" for name in names],
        "a vector added to all of the memory is taken off by the decoder's norms",
    )


@torch.no_grad()
def common_shift_cancels(block: SelfOrCrossAttention) -> bool:
    """Whether weights stay when one vector is added to all keys."""
    q, k, _, named = drawn_call(block)
    before, after = (
        block.attention.weights(q, keys, **named) for keys in (k, k + torch.randn(k.shape[-1]))
    )
    return bool((after - before).abs().max() < EXACT)


@torch.no_grad()
def passes_shift_of_values(block: SelfOrCrossAttention) -> bool:
    """Whether one vector added to all values is added to all outputs; it is where the weights of
    every query have the same sum and outputs are linear in the values.
    """
    q, k, v, named = drawn_call(block)
    before, after = (
        block.attention(q, k, values, **named) for values in (v, v + torch.randn(v.shape[-1]))
    )
    moved = after - before
    return bool((moved - moved[:, :, :1]).abs().max() < EXACT)


def drawn_call(block: SelfOrCrossAttention) -> tuple[Tensor, Tensor, Tensor, dict[str, Any]]:
    """Random queries, keys and values, ``(1 h q c), (1 h k c), (1 h k c)``, and options."""
    shape = 1, SIZES["heads"], 5, SIZES["head_dim"]
    q, k, v = torch.randn(3, *shape)
    return q[:, :, :4], k, v, {"mask": Mask(), "cap": block.cap, "weighting": block.weighting}


@torch.no_grad()
def subtracts_mean_over_tokens(norm: Norm) -> bool:
    """Whether a vector added to all tokens is taken off again, in the mode that the norm is in."""
    before = [(buffer, buffer.clone()) for buffer in norm.buffers()]
    x, shift = torch.randn(2, 6, SIZES["dim"]), torch.randn(SIZES["dim"])
    cancels = bool((norm(x + shift) - norm(x)).abs().max() < EXACT)
    for buffer, value in before:
        buffer.copy_(value)
    return cancels


@torch.no_grad()
def shifts(feedforward: nn.Module) -> list[str]:
    """Parameters of a feed-forward layer that add one vector to all tokens."""
    x, found = torch.randn(1, 5, SIZES["dim"]), []
    before: Tensor = feedforward(x)
    for name, parameter in feedforward.named_parameters():
        kept = parameter.clone()
        parameter.add_(torch.randn_like(parameter))
        moved = feedforward(x) - before
        parameter.copy_(kept)
        if bool((moved - moved[:, :1]).abs().max() < EXACT):
            found.append(name)
    return found
