"""What every feed-forward layer promises."""

# ruff: noqa: D103  # a promise is named after what it promises

from __future__ import annotations

import torch

from tfzoo.registry import Entry
from tfzoo.testing.promise import Violation, differ, finite, promise, same
from tfzoo.testing.samples import SIZES, make

B, N, D = 3, 5, SIZES["dim"]


@promise("feedforward")
def each_token_by_itself(entry: Entry) -> None:
    layer, x = make(entry), torch.randn(B, N, D)
    for training in (True, False):
        out = layer.train(training)(x)
        if out.shape != x.shape:
            raise Violation(f"(b n d) in, {tuple(out.shape)} out")
        for place in range(N):
            same(layer(x[:, place : place + 1]), out[:, place : place + 1], f"token {place} alone")
        same(layer(x.flip(0)).flip(0), out, "another order of the batch")


@promise("feedforward")
def every_channel_is_read(entry: Entry) -> None:
    layer, x = make(entry), torch.randn(1, 1, D)
    for channel in range(D):
        other = x.clone()
        other[..., channel] += 1.0
        differ(layer(other), layer(x), f"channel {channel}")


@promise("feedforward")
def identity_says_the_truth(entry: Entry) -> None:
    layer, x = make(entry), torch.randn(B, N, D)
    for dropout in (0.0, 0.5):
        if "identity" in entry.traits:
            same(layer(x, dropout), x, "claims to be the identity, but changes its input", 0.0)
    if "identity" not in entry.traits:
        differ(layer(x), x, "is the identity, but does not claim it")


@promise("feedforward")
def dropout_acts_as_given_and_not_otherwise(entry: Entry) -> None:
    """Training mode alone drops nothing; the hidden layer's expectation stays."""
    if "identity" in entry.traits:
        return
    layer, x = make(entry), torch.randn(1, 1, D).expand(4000, 1, D)
    with torch.no_grad():
        kept, dropped = layer.train()(x), layer.eval()(x, 0.3)
        same(kept[1:], kept[:-1], "no dropout, in training mode")
        differ(dropped[1:100], dropped[:99], "dropout 0.3")
        same(dropped.mean(0), kept[0], "mean of many draws with dropout 0.3", 0.1)


@promise("feedforward")
def gradients_reach_every_parameter(entry: Entry) -> None:
    layer, x = make(entry), torch.randn(B, N, D, requires_grad=True)
    out = layer(x)
    found = torch.autograd.grad(
        (out * torch.randn_like(out)).sum(), [x, *layer.parameters()], allow_unused=True
    )
    for name, gradient in zip(
        ["x", *(name for name, _ in layer.named_parameters())], found, strict=True
    ):
        finite(gradient, f"gradient of {name}")
        if gradient is not None and not gradient.abs().max() > 1e-6:
            raise Violation(f"no gradient reaches {name}")


@promise("feedforward")
def half_precision_under_autocast_is_close(entry: Entry) -> None:
    layer, x = make(entry), torch.randn(B, N, D).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        out = layer(x)
    if out.dtype != torch.bfloat16:
        raise Violation(f"bfloat16 in, {out.dtype} out")
    same(out, layer(x.float()), "bfloat16", 3e-2)


@promise("feedforward")
def double_precision_in_double_precision_out(entry: Entry) -> None:
    layer, x = make(entry), torch.randn(B, N, D)
    out = layer(x)
    double = layer.double()(x.double())
    if double.dtype != torch.float64:
        raise Violation(f"float64 in, {double.dtype} out")
    same(double, out, "float64", 1e-6)
