"""Contracts of every pooling."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from tfzoo.base.registry import Entry
from tfzoo.testing.contract import EXACT, Violation, contract, difference, trait
from tfzoo.testing.samples import LEFT, RIGHT, B, D, N, build_randomized, lengths_to_valid

EVERYTHING = torch.ones(B, N, dtype=torch.bool)


def ignores(entry: Entry, change: Callable[[Tensor, Tensor], Tensor]) -> bool:
    """Whether a change of tokens ``(b n d)``, by which are real ``(b n)``, has no effect."""
    pooling, x = build_randomized(entry), torch.randn(B, N, D)
    pairs = [
        (pooling(change(x, valid), valid), pooling(x, valid)) for valid in (EVERYTHING, RIGHT, LEFT)
    ]
    return all(difference(changed, before) <= EXACT for changed, before in pairs)


@trait("pooling", "ordered")
def depends_on_the_order(entry: Entry) -> bool:
    """The order of the tokens matters."""

    def moved(x: Tensor, valid: Tensor) -> Tensor:
        x = x.clone()
        for row, real in zip(x, valid, strict=True):
            row[real] = row[real].roll(1, 0)
        return x

    return not ignores(entry, moved)


@trait("pooling", "averages")
def depends_on_the_mean(entry: Entry) -> bool:
    """Tokens with the same mean and number give the same vector."""

    def with_noise(x: Tensor, valid: Tensor) -> Tensor:
        real = valid[..., None].to(x.dtype)
        noise = torch.randn(B, N, D) * real
        return x + (noise - noise.sum(1, keepdim=True) / real.sum(1, keepdim=True)) * real

    return ignores(entry, with_noise)


@trait("pooling", "reads_first")
def depends_on_the_first_token(entry: Entry) -> bool:
    """Tokens after the first have no influence."""
    later = torch.randn(B, N, D)
    return ignores(
        entry, lambda x, valid: torch.where((valid & (valid.cumsum(1) > 1))[..., None], later, x)
    )


@contract("pooling")
def a_text_of_no_token_gives_zeros(entry: Entry) -> None:
    """A text of no token gives zeros, in a batch of them too."""
    pooling, x = build_randomized(entry), torch.randn(B, N, D)
    for lengths in ([0, 0, 0], [6, 1, 0]):
        valid = lengths_to_valid(lengths, N)
        if bool(pooling(x, valid)[~valid.any(1)].ne(0).any()) or bool(pooling(x[:, :0]).any()):
            raise Violation("a text of no token is not zero")
