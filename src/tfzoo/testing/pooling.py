"""Contracts of every pooling."""

from __future__ import annotations

from copy import deepcopy

import torch

from tfzoo.base.registry import Entry
from tfzoo.testing.contract import (
    Violation,
    assert_differs,
    assert_dtype,
    assert_same,
    assert_same_if,
    assert_shape,
    contract,
)
from tfzoo.testing.samples import LEFT, RIGHT, B, D, N, build_randomized, lengths_to_valid


@contract("pooling")
def one_vector_of_each_text(entry: Entry) -> None:
    """``(b n d) -> (b d)``, one vector that depends on its own text."""
    pooling, x = build_randomized(entry), torch.randn(B, N, D)
    for valid in (None, RIGHT, LEFT):
        out = pooling(x, valid)
        assert_shape(out, (B, D), "(b n d) in, (b d) out")
        assert_differs(pooling(torch.randn(B, N, D), valid), out, "another text")
        assert_differs(out[1:], out[:1].expand(2, -1), "the other texts of the batch")


@contract("pooling")
def ordered_says_the_truth(entry: Entry) -> None:
    """The order of the tokens matters exactly where ``ordered`` is declared."""
    pooling, x = build_randomized(entry), torch.randn(B, N, D)
    for valid, lengths in ((None, [N] * B), (RIGHT, RIGHT.sum(1).tolist())):
        moved = x.clone()
        for row, length in enumerate(lengths):
            moved[row, :length] = x[row, :length].roll(1, 0)
        assert_same_if(
            "ordered" not in entry.traits,
            pooling(moved, valid),
            pooling(x, valid),
            "order matters, but that is not claimed",
            "claims that order matters, but it does not",
        )


@contract("pooling")
def averages_says_the_truth(entry: Entry) -> None:
    """Tokens with the same mean and number give the same vector exactly where ``averages`` is
    declared.
    """
    pooling, x = build_randomized(entry), torch.randn(B, N, D)
    for valid in (None, RIGHT, LEFT):
        real = torch.ones(B, N, 1) if valid is None else valid[..., None].to(x.dtype)
        noise = torch.randn(B, N, D) * real
        noise = (noise - noise.sum(1, keepdim=True) / real.sum(1, keepdim=True)) * real
        assert_same_if(
            "averages" in entry.traits,
            pooling(x + noise, valid),
            pooling(x, valid),
            "claims that only the mean matters, but more does",
            "only the mean matters, but that is not claimed",
        )


@contract("pooling")
def reads_first_says_the_truth(entry: Entry) -> None:
    """Tokens after the first have no influence exactly where ``reads_first`` is declared."""
    pooling, x = build_randomized(entry), torch.randn(B, N, D)
    for valid in (None, RIGHT, LEFT):
        real = torch.ones(B, N, dtype=torch.bool) if valid is None else valid
        later = real & (real.cumsum(1) > 1)
        changed = torch.where(later[..., None], torch.randn(B, N, D), x)
        assert_same_if(
            "reads_first" in entry.traits,
            pooling(changed, valid),
            pooling(x, valid),
            "claims to read the first token alone",
            "only the first token matters, but that is not claimed",
        )


@contract("pooling")
def token_index_names_the_token_that_is_read(entry: Entry) -> None:
    """Where ``token_index`` names a token of each text, that token alone gives the same vector."""
    pooling, x = build_randomized(entry), torch.randn(B, N, D)
    for valid in (None, RIGHT, LEFT, lengths_to_valid([6, 1, 0], N)):
        place = pooling.token_index(x, valid)
        if place is None:
            continue
        alone = x[torch.arange(B), place][:, None]
        some = None if valid is None else valid.any(1, keepdim=True)
        assert_same(pooling(alone, some), pooling(x, valid), "the token of `token_index`, alone")


@contract("pooling")
def without_parameters_one_token_is_its_own_vector(entry: Entry) -> None:
    """Without parameters, a text of one token gives that token."""
    pooling, x = build_randomized(entry), torch.randn(B, 1, D)
    if not list(pooling.parameters()):
        assert_same(pooling(x), x[:, 0], "a text of one token")


@contract("pooling")
def a_text_of_no_token_gives_zeros(entry: Entry) -> None:
    """A text of no token gives zeros, in a batch of them too."""
    pooling, x = build_randomized(entry), torch.randn(B, N, D)
    if bool(pooling(x[:, :0]).ne(0).any()):
        raise Violation("a text of no token, in a batch of them, is not zero")
    for lengths in ([0, 0, 0], [6, 1, 0]):
        valid = lengths_to_valid(lengths, N)
        if bool(pooling(x, valid)[~valid.any(1)].ne(0).any()):
            raise Violation("a text of no token is not zero")


@contract("pooling")
def sums_are_taken_in_single_precision(entry: Entry) -> None:
    """Sums over thousands of bf16 or fp16 tokens are taken in fp32 or better; the output has the
    dtype of the input.
    """
    pooling, n = build_randomized(entry), 3000
    single = deepcopy(pooling).float()
    sums = n * torch.finfo(torch.float32).eps
    for dtype in (torch.bfloat16, torch.float16):
        x = (1 + 0.1 * torch.randn(B, n, D)).to(dtype)
        for valid in (None, lengths_to_valid([n, n - 5, 7], n)):
            exact = pooling(x.double(), valid)
            out = single(x, valid)
            assert_dtype(out, dtype)
            assert_same(out, exact, f"{dtype}", torch.finfo(dtype).eps + sums)
            with torch.autocast("cpu", torch.bfloat16):
                out = single(x, valid)
            # Autocast rounds the inputs, weights, sums and output of a product.
            products = 4 * torch.finfo(torch.bfloat16).eps if list(pooling.parameters()) else 0.0
            bound = max(torch.finfo(dtype).eps, products) + sums
            assert_same(out, exact, f"{dtype} under autocast", bound)
