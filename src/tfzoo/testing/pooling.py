"""What every pooling promises."""

# ruff: noqa: D103  # a promise is named after what it promises

from __future__ import annotations

import torch
from torch.nn.functional import pad

from tfzoo.registry import Entry
from tfzoo.testing.promise import Violation, differ, finite, promise, same
from tfzoo.testing.samples import SIZES, lengths_to_valid, make

B, N, D = 3, 6, SIZES["dim"]
RIGHT = lengths_to_valid([6, 4, 2], N)
LEFT = lengths_to_valid([6, 4, 2], N, left=True)


@promise("pooling")
def one_vector_of_each_text(entry: Entry) -> None:
    pooling, x = make(entry), torch.randn(B, N, D)
    for valid in (None, RIGHT, LEFT):
        out = pooling(x, valid)
        if out.shape != (B, D):
            raise Violation(f"(b n d) in, {tuple(out.shape)} out instead of (b d)")
        differ(pooling(torch.randn(B, N, D), valid), out, "another text")
        differ(out[1:], out[:1].expand(2, -1), "the other texts of the batch")


@promise("pooling")
def padding_has_no_influence(entry: Entry) -> None:
    pooling, x = make(entry), torch.randn(B, N, D)
    for valid in (RIGHT, LEFT):
        out = pooling(x, valid)
        for junk in (1e4, float("nan"), float("inf"), float("-inf")):
            other = torch.where(valid[..., None], x, junk)
            same(pooling(other, valid), out, f"padding of {junk}")
        longer = (
            pad(torch.where(valid[..., None], x, 1e4), (0, 0, 2, 3), value=1e4),
            pad(valid, (2, 3)),
        )
        same(pooling(*longer), out, "more padding on both sides")


@promise("pooling")
def no_padding_given_is_no_padding_at_all(entry: Entry) -> None:
    pooling, x = make(entry), torch.randn(B, N, D)
    same(pooling(x, torch.ones(B, N, dtype=torch.bool)), pooling(x), "valid=None")


@promise("pooling")
def a_text_does_not_see_the_others_of_its_batch(entry: Entry) -> None:
    pooling, x = make(entry), torch.randn(B, N, D)
    for training in (True, False):
        out = pooling.train(training)(x, RIGHT)
        same(pooling(x.flip(0), RIGHT.flip(0)).flip(0), out, "another order of the batch")
        for row, length in enumerate(RIGHT.sum(1).tolist()):
            same(
                pooling(x[row : row + 1, :length]), out[row : row + 1], "alone and without padding"
            )


@promise("pooling")
def ordered_says_the_truth(entry: Entry) -> None:
    """The order of a text's tokens makes a difference if that is claimed, and only then."""
    pooling, x = make(entry), torch.randn(B, N, D)
    for valid, lengths in ((None, [N] * B), (RIGHT, RIGHT.sum(1).tolist())):
        moved = x.clone()
        for row, length in enumerate(lengths):
            moved[row, :length] = x[row, :length].roll(1, 0)
        if "ordered" in entry.traits:
            differ(
                pooling(moved, valid),
                pooling(x, valid),
                "claims that order matters, but it does not",
            )
        else:
            same(pooling(moved, valid), pooling(x, valid), "order matters, but that is not claimed")


@promise("pooling")
def averages_says_the_truth(entry: Entry) -> None:
    """Tokens that differ, but have the same mean and number, come out the same if that is claimed,
    and only then.
    """
    pooling, x = make(entry), torch.randn(B, N, D)
    for valid in (None, RIGHT, LEFT):
        real = torch.ones(B, N, 1) if valid is None else valid[..., None].float()
        noise = torch.randn(B, N, D) * real
        noise = (noise - noise.sum(1, keepdim=True) / real.sum(1, keepdim=True)) * real
        if "averages" in entry.traits:
            same(
                pooling(x + noise, valid),
                pooling(x, valid),
                "claims that only the mean matters, but more does",
            )
        else:
            differ(
                pooling(x + noise, valid),
                pooling(x, valid),
                "only the mean matters, but that is not claimed",
            )


@promise("pooling")
def a_text_of_one_token_is_that_token_for_all_that_is_not_trained(entry: Entry) -> None:
    pooling, x = make(entry), torch.randn(B, 1, D)
    if not list(pooling.parameters()):
        same(pooling(x), x[:, 0], "a text of one token")


@promise("pooling")
def texts_of_no_token_are_harmless(entry: Entry) -> None:
    pooling, x = make(entry), torch.randn(B, N, D, requires_grad=True)
    for valid in (lengths_to_valid([0, 0, 0], N), lengths_to_valid([6, 1, 0], N)):
        out = pooling(x, valid)
        if bool(out[~valid.any(1)].ne(0).any()):
            raise Violation("a text of no token is not zero")
        for gradient in torch.autograd.grad(
            out.square().sum(), [x, *pooling.parameters()], allow_unused=True
        ):
            if gradient is not None:
                finite(gradient, "gradient of a text of no token")


@promise("pooling")
def gradients_reach_every_parameter_and_real_tokens_alone(entry: Entry) -> None:
    pooling, x = make(entry), torch.randn(B, N, D, requires_grad=True)
    out = pooling(x, RIGHT)
    found = torch.autograd.grad(
        (out * torch.randn_like(out)).sum(), [x, *pooling.parameters()], allow_unused=True
    )
    for name, gradient in zip(
        ["x", *(name for name, _ in pooling.named_parameters())], found, strict=True
    ):
        finite(gradient, f"gradient of {name}")
        if gradient is not None and not gradient.abs().max() > 1e-6:
            raise Violation(f"no gradient reaches {name}")
    if found[0] is not None and bool((found[0][~RIGHT] != 0).any()):
        raise Violation("padding gets a gradient")
    if found[0] is not None and bool((found[0].abs().amax((1, 2)) == 0).any()):
        raise Violation("no gradient reaches some text")


@promise("pooling")
def sums_are_taken_in_single_precision(entry: Entry) -> None:
    """Thousands of tokens of one size do not drown each other."""
    pooling, n = make(entry), 3000
    products = bool(list(pooling.parameters()))  # autocast rounds them
    for dtype, tolerance in ((torch.bfloat16, 1e-2), (torch.float16, 2e-3)):
        rounded = 3e-2 if products else tolerance
        x = (1 + 0.1 * torch.randn(B, n, D)).to(dtype)
        for valid in (None, lengths_to_valid([n, n - 5, 7], n)):
            out = pooling(x, valid)
            if out.dtype != dtype:
                raise Violation(f"{dtype} in, {out.dtype} out")
            same(out, pooling(x.float(), valid), f"{dtype}", tolerance)
            with torch.autocast("cpu", torch.bfloat16):
                same(pooling(x, valid), out, f"{dtype} under autocast", rounded)


@promise("pooling")
def double_precision_in_double_precision_out(entry: Entry) -> None:
    pooling, x = make(entry), torch.randn(B, N, D)
    for valid in (None, RIGHT):
        out = pooling.float()(x, valid)
        double = pooling.double()(x.double(), valid)
        if double.dtype != torch.float64:
            raise Violation(f"float64 in, {double.dtype} out")
        same(double, out, "float64", 1e-6)
