"""Contracts of every norm."""

from __future__ import annotations

import torch
from torch import Tensor

from tfzoo.base.registry import Entry
from tfzoo.contracts import Norm
from tfzoo.testing.contract import EXACT, difference, trait
from tfzoo.testing.probes import apply_norm
from tfzoo.testing.samples import LEFT, RIGHT, B, D, N, build_randomized

MODES = (True, False)


def reads_other_tokens(norm: Norm, training: bool) -> bool:
    """Whether another token changes the output of a token."""
    x = torch.randn(B, N, D)
    changed = torch.cat([x[:, :1], 5 * torch.randn(B, 1, D), x[:, 2:]], 1)
    outs = [
        [apply_norm(norm.train(training), one, valid)[0][:, :1] for one in (x, changed)]
        for valid in (None, RIGHT)
    ]
    return any(difference(after, before) > EXACT for before, after in outs)


@trait("norm", "mixes_tokens:always")
def mixes_tokens(entry: Entry) -> bool:
    """Another token changes the output of a token."""
    return reads_other_tokens(build_randomized(entry), training=False)


@trait("norm", "mixes_tokens:training")
def mixes_tokens_in_training(entry: Entry) -> bool:
    """Another token changes the output of a token in training, and not outside it."""
    norm = build_randomized(entry)
    return reads_other_tokens(norm, True) and not reads_other_tokens(norm, False)


@trait("norm", "centres_texts")
def all_texts_have_one_mean(entry: Entry) -> bool:
    """The mean over the tokens is the same for every text."""
    norm, x = build_randomized(entry), torch.randn(B, N, D)

    def means(training: bool, valid: Tensor) -> Tensor:
        out = apply_norm(norm.train(training), x, valid)[0].masked_fill(~valid[..., None], 0.0)
        return out.sum(1) / valid.sum(1, keepdim=True)

    found = [means(training, valid) for training in MODES for valid in (RIGHT, LEFT)]
    return all(difference(one, one[:1].expand_as(one)) <= EXACT for one in found)
