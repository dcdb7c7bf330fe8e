"""Contracts of every feed-forward layer."""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import Tensor

from tfzoo.base.registry import Entry
from tfzoo.testing.contract import (
    EXACT,
    Violation,
    assert_claimed,
    assert_differs,
    assert_dtype,
    assert_same,
    assert_same_if,
    contract,
)
from tfzoo.testing.samples import SIZES, build, build_randomized

B, N, D = 3, 5, SIZES["dim"]


@contract("feedforward")
def every_channel_is_read(entry: Entry) -> None:
    """Every input channel has influence."""
    layer, x = build_randomized(entry), torch.randn(1, 1, D)
    for channel in range(D):
        other = x.clone()
        other[..., channel] += 1.0
        assert_differs(layer(other), layer(x), f"channel {channel}")


@contract("feedforward")
def waits_for_device_says_the_truth(entry: Entry) -> None:
    """Without numbers to read (``torch.device("meta")``), it fails exactly where
    ``waits_for_device`` is declared.
    """
    with torch.device("meta"):
        layer, x = build(entry), torch.randn(B, N, D)
    try:
        layer(x)
    except (NotImplementedError, RuntimeError) as error:
        if "waits_for_device" not in entry.traits:
            raise Violation(f"the host reads a tensor, without declaring it: {error}") from None
    else:
        if "waits_for_device" in entry.traits:
            raise Violation("claims that the host waits for the device, but it does not")


@contract("feedforward")
def identity_says_the_truth(entry: Entry) -> None:
    """The output is the input exactly where ``identity`` is declared."""
    layer, x = build_randomized(entry), torch.randn(B, N, D)
    for dropout in (0.0, 0.5):
        assert_same_if(
            "identity" in entry.traits,
            layer(x, dropout),
            x,
            "claims to be the identity, but changes its input",
            "is the identity, but does not claim it",
            0.0,
        )


@contract("feedforward")
def dropout_acts_as_given_and_not_otherwise(entry: Entry) -> None:
    """``dropout`` acts as passed, whatever the mode, and keeps the mean of the hidden layer."""
    if "identity" in entry.traits:
        return
    layer, x = build_randomized(entry), torch.randn(1, 1, D).expand(4000, 1, D)
    with torch.no_grad():
        kept, dropped = layer.train()(x), layer.eval()(x, 0.3)
        assert_same(kept[1:], kept[:-1], "no dropout, in training mode")
        assert_differs(dropped[1:100], dropped[:99], "dropout 0.3")
        error = dropped.std(0) / len(x) ** 0.5
        if not bool(((dropped.mean(0) - kept[0]).abs() <= 5 * error + EXACT).all()):
            raise Violation("the mean of 4000 draws with dropout 0.3 is not the output without")


@contract("feedforward")
def auxiliary_loss_says_the_truth(entry: Entry) -> None:
    """Exactly where ``auxiliary_loss`` is declared, training sets a loss that has gradients;
    evaluation sets none.
    """
    layer, x = build_randomized(entry), torch.randn(B, N, D)
    losses: list[Tensor | None] = []
    for training in (False, True):
        layer.train(training)(x)
        losses.append(layer.auxiliary_loss)
    evaluated, loss = losses
    if evaluated is not None:
        raise Violation("a loss is set in evaluation mode")
    assert_claimed(
        entry,
        "auxiliary_loss",
        loss is not None,
        "no loss is set, but one is claimed",
        "a loss is set, not claimed",
    )
    if loss is not None and (loss.shape != () or not loss.requires_grad):
        raise Violation(f"a loss of shape {tuple(loss.shape)}, or without gradients")


@contract("feedforward")
@torch.no_grad()
def discontinuous_says_the_truth(entry: Entry) -> None:
    """The output jumps somewhere exactly where ``discontinuous`` is declared: looked for by halving
    lines between random tokens.
    """
    layer, start, end = build_randomized(entry), torch.randn(1, 99, D), torch.randn(1, 99, D)
    size = layer(start).abs().max()
    for _ in range(40):
        middle = (start + end) / 2
        to_start, to_end = (
            (layer(one) - layer(middle)).abs().amax(-1, keepdim=True) for one in (start, end)
        )
        start, end = (
            torch.where(to_start > to_end, start, middle),
            torch.where(to_start > to_end, middle, end),
        )
    jump = float((layer(start) - layer(end)).abs().max() / size)
    assert_claimed(
        entry,
        "discontinuous",
        jump > 1e-3,
        "claims to be discontinuous, but no jump was found",
        f"the output jumps by {jump:.2g} of its size, which is not claimed",
    )


@contract("feedforward")
def half_precision_under_autocast_is_close(entry: Entry) -> None:
    """bf16 in gives bf16 out, off from float64 by at most a few roundings of the weights."""
    layer, x = build_randomized(entry), torch.randn(B, N, D).bfloat16()
    exact, single, rounded = layer(x.double()), deepcopy(layer).float(), deepcopy(layer).bfloat16()
    once = (rounded.double()(x.double()) - exact).abs().max()
    with torch.autocast("cpu", torch.bfloat16):
        out = single(x)
    assert_dtype(out, torch.bfloat16)
    # Autocast rounds inputs, weights, hidden numbers and output: four roundings, and twice that.
    bound = 8 * once + torch.finfo(torch.bfloat16).eps * exact.abs().max()
    if not (out.double() - exact).abs().max() <= bound:
        raise Violation(f"bfloat16 is off by more than {bound:.3g}")
