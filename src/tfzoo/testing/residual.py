"""Contracts of every residual connection."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tfzoo.base.registry import Entry
from tfzoo.contracts import Norm
from tfzoo.testing.contract import (
    EXACT,
    Violation,
    assert_claimed,
    assert_differs,
    assert_same,
    assert_same_if,
    contract,
)
from tfzoo.testing.samples import (
    B,
    D,
    N,
    build,
    build_randomized,
    randomize,
)

LARGE = 1e4


@contract("residual")
def the_sublayer_is_called_once_with_all_arguments(entry: Entry) -> None:
    """The sublayer is called once, with tokens ``(b n d)`` and the further arguments."""
    calls: list[tuple[Any, ...]] = []

    class Watched(nn.Linear):
        def forward(self, x: Tensor, *args: Any) -> Tensor:
            calls.append((x.shape, *args))
            return super().forward(x)

    inner = Watched(D, D)
    wrapped = randomize(build(entry, inner=inner))
    x, context = torch.randn(B, N, D), object()
    out = wrapped(x, None, context, 7)
    if calls != [(x.shape, context, 7)]:
        raise Violation(f"the sublayer is called with {calls}")
    with torch.no_grad():
        inner.weight.neg_()
    assert_differs(wrapped(x), out, "another sublayer")


@contract("residual")
def dropout_acts_on_the_sublayer_in_training_alone(entry: Entry) -> None:
    """``dropout`` zeroes channels of the sublayer's output, in training mode alone."""
    wrapped, x = build_randomized(entry, dropout=0.5), torch.randn(1, 1, D).expand(200, 1, D)
    kept = wrapped.eval()(x)
    assert_same(kept[1:], kept[:-1], "dropout outside training")
    dropped = wrapped.train()(x)
    assert_differs(dropped[1:], dropped[:-1], "dropout 0.5, in training mode")
    wrapped.dropout = 0.0
    assert_same(wrapped(x), kept, "dropout 0, in training mode")


@contract("residual")
def final_norm_says_the_truth(entry: Entry) -> None:
    """The output grows with the input, past every norm, exactly where ``final_norm`` is declared: a
    stack of such layers needs a norm at its end.
    """
    wrapped, x = build_randomized(entry), torch.randn(B, N, D)
    growth = (wrapped(LARGE * x).std() / wrapped(x).std()).item()
    assert_claimed(
        entry,
        "final_norm",
        growth > LARGE**0.5,
        "claims to need a final norm, but the output does not grow with the input",
        "the output grows with the input, but no final norm is claimed",
    )


@contract("residual")
def ends_with_norm_says_the_truth(entry: Entry) -> None:
    """The output is that of a norm exactly where ``ends_with_norm`` is declared."""
    wrapped, x = randomize(build(entry)), 3 * torch.randn(B, N, D) + 1
    for part in wrapped.modules():
        if isinstance(part, Norm):
            part.reset_parameters()  # type: ignore[operator]  # norm: layer
    out = wrapped(x)
    moments = torch.stack([out.mean(-1), out.var(-1, unbiased=False) - 1])
    near = 1e-3  # the norm adds an eps to variances
    assert_same_if(
        "ends_with_norm" in entry.traits,
        moments,
        torch.zeros_like(moments),
        "claims to end with a norm",
        "ends with a norm, but does not claim it",
        near,
    )


@contract("residual")
def replaces_says_the_truth(entry: Entry) -> None:
    """Beside a sublayer that gives zeros, nothing of the input is left exactly where ``replaces``
    is declared.
    """
    inner = nn.Linear(D, D)
    wrapped, x = randomize(build(entry, inner=inner)), torch.randn(B, N, D)
    nn.init.zeros_(inner.weight)
    nn.init.zeros_(inner.bias)
    out, other = wrapped(x), wrapped(2 * x.flip(0))
    assert_same_if(
        "replaces" in entry.traits,
        out,
        other,
        "claims to keep nothing of the input, but the output depends on it",
        "keeps nothing of the input, but does not claim it",
    )


@contract("residual")
def parallel_says_the_truth(entry: Entry) -> None:
    """The output is ``x + f(norm(x))`` exactly where ``parallel`` is declared."""
    wrapped, x = build_randomized(entry), torch.randn(B, N, D)
    outs = [x + wrapped.inner(norm(x)) for norm in wrapped.modules() if isinstance(norm, Norm)]
    off = min(((wrapped(x) - out).abs().max().item() for out in outs), default=1.0)
    if ("parallel" in entry.traits) != (off <= EXACT and len(outs) == 1):
        claim = "claimed" if "parallel" in entry.traits else "not claimed"
        raise Violation(f"parallel is {claim}, and the output is off x + f(norm(x)) by {off:.2g}")
