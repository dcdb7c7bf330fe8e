"""Contracts of every residual connection."""

from __future__ import annotations

import torch
from torch import nn

from tfzoo.base.registry import Entry
from tfzoo.contracts import Norm
from tfzoo.testing.contract import EXACT, difference, trait
from tfzoo.testing.samples import B, D, N, build, build_randomized, randomize

LARGE = 1e4


@trait("residual", "final_norm")
def grows_with_its_input(entry: Entry) -> bool:
    """The output grows with the input, past every norm: a stack of such layers needs a norm at its
    end.
    """
    wrapped, x = build_randomized(entry), torch.randn(B, N, D)
    return bool(wrapped(LARGE * x).std() > LARGE**0.5 * wrapped(x).std())


@trait("residual", "ends_with_norm")
def gives_what_a_norm_gives(entry: Entry) -> bool:
    """The output is that of a norm."""
    wrapped, x = randomize(build(entry)), 3 * torch.randn(B, N, D) + 1
    for part in wrapped.modules():
        if isinstance(part, Norm):
            part.reset_parameters()  # type: ignore[operator]  # norm: layer
    out = wrapped(x)
    moments = torch.stack([out.mean(-1), out.var(-1, unbiased=False) - 1])
    return bool(moments.abs().max() <= 1e-3)  # the norm adds an eps to variances


@trait("residual", "replaces")
def keeps_nothing_of_its_input(entry: Entry) -> bool:
    """Beside a sublayer that gives zeros, nothing of the input is left."""
    inner = nn.Linear(D, D)
    wrapped, x = randomize(build(entry, inner=inner)), torch.randn(B, N, D)
    nn.init.zeros_(inner.weight)
    nn.init.zeros_(inner.bias)
    return difference(wrapped(x), wrapped(2 * x.flip(0))) <= EXACT


@trait("residual", "parallel")
def adds_the_sublayer_of_the_norm(entry: Entry) -> bool:
    """The output is ``x + f(norm(x))``."""
    wrapped, x = build_randomized(entry), torch.randn(B, N, D)
    outs = [x + wrapped.inner(norm(x)) for norm in wrapped.modules() if isinstance(norm, Norm)]
    return len(outs) == 1 and difference(wrapped(x), outs[0]) <= EXACT
