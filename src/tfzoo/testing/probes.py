"""What a component computes on fixed inputs, so that two can be compared without knowing their
kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor

from tfzoo.base.precision import at_least_fp32
from tfzoo.contracts import Attention, FeedForward, Norm, Pooling, Position, Residual, Weighting
from tfzoo.masks import Mask
from tfzoo.models.context import Context
from tfzoo.models.mixer import Mixer
from tfzoo.testing.samples import SIZES, lengths_to_valid

B, N, FAR = 3, 7, 400
DIM, HEADS, WIDTH = SIZES["dim"], SIZES["heads"], SIZES["head_dim"]


def inputs(dim: int = DIM, heads: int = HEADS) -> Mapping[str, Tensor]:
    """One set of inputs in the default dtype, the same in every call. ``valid`` may be left out."""
    return _inputs(torch.get_default_dtype(), dim, heads)


@cache
def _inputs(dtype: torch.dtype, dim: int, heads: int) -> Mapping[str, Tensor]:
    draw, head = torch.Generator().manual_seed(7), (B, heads, N, dim // heads)
    found = {name: torch.randn(head, generator=draw, dtype=dtype) for name in "qkv"}
    found["scores"] = torch.randn(B, heads, N, N, generator=draw, dtype=dtype)
    found["x"] = torch.randn(B, N, dim, generator=draw, dtype=dtype)
    found["valid"] = lengths_to_valid([7, 5, 2], N)
    found["length"] = torch.tensor([[7], [5], [2]])
    found["pos"] = torch.arange(N)[None]
    found["far"] = torch.arange(0, FAR, 3)[None]
    return found


def of_attention(attention: Attention, given: Mapping[str, Tensor]) -> list[Tensor]:
    """Outputs and weights under a mask."""
    named: dict[str, Any] = {"mask": Mask(causal=True, keys=given.get("valid")), "temperature": 1.3}
    return [
        attention.forward(given["q"], given["k"], given["v"], **named),
        attention.weights(given["q"], given["k"], **named),
    ]


def of_weighting(weighting: Weighting, given: Mapping[str, Tensor]) -> list[Tensor]:
    """Weights under a mask, in the dtype of the scores."""
    scores = given["scores"]
    weights = weighting(at_least_fp32(scores), Mask(causal=True, keys=given.get("valid")))
    return [weights.to(scores.dtype)]


def of_mixer(mixer: Mixer, given: Mapping[str, Tensor]) -> list[Tensor]:
    """The output at real tokens, of a mixer that is not causal."""
    valid, pos = given.get("valid"), given["pos"]
    out: Tensor = mixer(given["x"], Context(Mask(keys=valid), pos, pos), 0)
    return [out if valid is None else out.masked_fill(~valid[..., None], 0.0)]


def of_residual(residual: Residual, given: Mapping[str, Tensor]) -> list[Tensor]:
    """The output."""
    return [residual(given["x"], given.get("valid"))]


def apply_norm(norm: Norm, x: Tensor, valid: Tensor | None = None) -> tuple[Tensor, list[Tensor]]:
    """The output and the running statistics afterwards; the norm itself stays as it was."""
    before = [buffer.clone() for buffer in norm.buffers()]
    out = norm(x, valid)
    after = [buffer.clone() for buffer in norm.buffers()]
    with torch.no_grad():
        for buffer, value in zip(norm.buffers(), before, strict=True):
            buffer.copy_(value)
    return out, after


def of_norm(norm: Norm, given: Mapping[str, Tensor]) -> list[Tensor]:
    """Both modes, and the running statistics that training left."""
    mode, x, valid = norm.training, given["x"], given.get("valid")
    evaluated, _ = apply_norm(norm.eval(), x, valid)
    trained, statistics = apply_norm(norm.train(), x, valid)
    norm.train(mode)
    return [evaluated, trained, *statistics]


def of_position(position: Position, given: Mapping[str, Tensor]) -> list[Tensor]:
    """What each hook does near and far."""
    pos, far = given["pos"], given["far"]
    turn, bias, distant = (
        position.angles(pos),
        position.bias(pos, pos),
        position.bias(far[:, -1:], far),
    )
    outs = [position.embed(given["x"], pos, given["length"])]
    if turn is not None:
        outs.append(turn(given["q"]))
    return outs + [one for one in (bias, distant) if one is not None]


def of_feedforward(feedforward: FeedForward, given: Mapping[str, Tensor]) -> list[Tensor]:
    """The output, and an auxiliary loss over real tokens."""
    outs = [feedforward(given["x"])]
    if "auxiliary_loss" in feedforward.entry.traits:
        mode = feedforward.training
        feedforward.train()(given["x"], 0.0, given.get("valid"))
        feedforward.train(mode)
        if feedforward.auxiliary_loss is not None:
            outs.append(feedforward.auxiliary_loss)
    return outs


def of_pooling(pooling: Pooling, given: Mapping[str, Tensor]) -> list[Tensor]:
    """With padding and without."""
    return [pooling(given["x"], given.get("valid")), pooling(given["x"])]


PROBES: Mapping[str, Callable[..., list[Tensor]]] = {
    "attention": of_attention,
    "weighting": of_weighting,
    "mixer": of_mixer,
    "residual": of_residual,
    "norm": of_norm,
    "position": of_position,
    "feedforward": of_feedforward,
    "pooling": of_pooling,
}


def probe(kind: str, module: Any) -> list[Tensor]:
    """All that a component computes."""
    return PROBES[kind](module, inputs())
