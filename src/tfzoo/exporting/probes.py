"""Finds out what a part computes, by calling it.

CTranslate2 has a fixed set of layers. Whether a part is one of them is not a matter of its name or
class: these functions apply it to a few numbers, in float64 where it takes them, and compare the
result with what CTranslate2 computes. None means that it computes something else.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tfzoo.base.rotation import Rotation
from tfzoo.contracts import Attention, FeedForward, Norm, Position, Residual
from tfzoo.masks import Mask
from tfzoo.models.traits import mixes_tokens

M = TypeVar("M", bound=nn.Module)

ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "RELU": F.relu,
    "GELU": F.gelu,
    "GELUTanh": lambda z: F.gelu(z, approximate="tanh"),
    "GELUSigmoid": lambda z: z * torch.sigmoid(1.702 * z),
    "SWISH": F.silu,
    "Tanh": torch.tanh,
    "Sigmoid": torch.sigmoid,
}
"""The activation functions of CTranslate2 by their names there."""


@dataclass(frozen=True)
class LayerNorm:
    """Layer norm, or RMS norm if ``beta`` is None: ``gamma`` and ``beta`` are ``(d)``."""

    gamma: Tensor
    beta: Tensor | None
    eps: float

    def __call__(self, x: Tensor) -> Tensor:
        """``(n d) -> (n d)``"""
        if self.beta is not None:
            return F.layer_norm(x, self.gamma.shape, self.gamma, self.beta, self.eps)
        return F.rms_norm(x, self.gamma.shape, self.gamma, self.eps)


def layer_norm(norm: Norm, dim: int) -> LayerNorm | None:
    """The layer norm or RMS norm that a norm is."""
    if mixes_tokens(norm.entry):
        return None
    probe = wide(norm)

    def apply(x: Tensor) -> Tensor:
        y: Tensor = probe(x[None])[0]
        return y

    x = numbers(1, dim)
    x = (x - x.mean()) / (x.var(correction=0)).sqrt()
    beta = apply(torch.zeros_like(x))
    gamma = (apply(1e6 * x) - beta) / x  # so large that eps does not count
    most = (gamma * x).abs().argmax()
    share = ((apply(1e-3 * x) - beta) / (gamma * x)).flatten()[most].item()
    if not 0 < share <= 1 + 1e-9:
        return None
    eps = float(f"{max(1e-6 * (share**-2 - 1), 0.0):.6g}")
    y = torch.cat([numbers(3, dim) + 0.5, 10 * numbers(3, dim)])
    for candidate in (
        LayerNorm(gamma[0], beta[0], eps),
        LayerNorm(gamma[0], None, eps),
    ):
        if close(candidate(y), apply(y)):
            return candidate
    return None


def has_norm_first(residual: Residual, dim: int) -> bool | None:
    """True for ``x + f(norm(x))``, False for ``norm(x + f(x))``, where ``norm`` is the attribute of
    that name.
    """
    probe = wide(residual)
    probe.inner = Inner()
    norm = getattr(probe, "norm", None)
    if not isinstance(norm, Norm):
        return None
    x = numbers(3, dim)[None]
    y = probe(x)
    if close(y, x + probe.inner(norm(x))):
        return True
    return False if close(y, norm(x + probe.inner(x))) else None


class Inner(nn.Module):
    """A sublayer for :func:`has_norm_first`."""

    def forward(self, x: Tensor, *args: Any) -> Tensor:
        """``(b n d) -> (b n d)``"""
        return torch.tanh(2 * x) + 0.25


def score_scale(attention: Attention, heads: int, head_dim: int) -> float | None:
    """``s`` where the attention is ``softmax(s q k^T) v``."""
    probe = wide(attention)
    q, k, v = (numbers(heads * n, head_dim).reshape(1, heads, n, head_dim) for n in (3, 5, 5))
    product, scores = q @ k.mT, probe.scores(q, k)
    if scores.shape != product.shape:
        return None
    scale = ((scores * product).sum() / product.square().sum()).item()
    if not close(scores, scale * product):
        return None
    return scale if close(probe(q, k, v, mask=Mask()), scores.softmax(-1) @ v) else None


def activation(feedforward: FeedForward) -> str | None:
    """The name of the feed-forward layer's function in :data:`ACTIVATIONS`."""
    function = getattr(feedforward, "activation", None)
    if not callable(function):
        return None
    z = torch.linspace(-6, 6, 25, dtype=torch.float64)
    found = function(z.clone())
    return next((name for name, one in ACTIVATIONS.items() if close(found, one(z))), None)


def added_table(position: Position, dim: int, length: int) -> Tensor | None:
    """``(length d)``: what is added to the embedding at each position."""
    pos = torch.arange(length)[None]
    x = numbers(length, dim)[None].float()
    zeros: Tensor = torch.zeros(1, length, dim)
    table = position.embed(zeros, pos)
    return table[0] if torch.allclose(position.embed(x, pos) - x, table, atol=1e-5) else None


def biases(position: Position, distances: Tensor) -> Tensor | None:
    """``(distances h)``: what is added to the scores of keys that are so far away, under 0 for
    earlier ones; None where it depends on more than that.
    """
    found = []
    for start in (0, 3):
        query = torch.tensor([[start]]) + distances.min().neg().clamp(min=0)
        bias = position.bias(query, query + distances[None])
        if bias is None or bias.shape[0] != 1:
            return None
        found.append(bias[0, :, 0].T)
    near, far = found
    return near if torch.allclose(near, far, atol=1e-5) else None


def frequencies(position: Position, length: int = 512) -> tuple[Tensor, Rotation] | None:
    """``(c/2)``: the angle from one position to the next of each rotated pair of channels, and the
    rotation.
    """
    rotation = wide(position).angles(torch.arange(length)[None])
    if rotation is None or rotation.cos.shape[:2] != (1, 1):
        return None
    cos, sin = rotation.cos[0, 0].double(), rotation.sin[0, 0].double()
    steps = torch.atan2(sin[1], cos[1])
    angles = torch.arange(length, dtype=torch.float64)[:, None] * steps
    same = torch.allclose(cos, angles.cos(), atol=1e-4) and torch.allclose(
        sin, angles.sin(), atol=1e-4
    )
    return (steps, rotation) if same and bool((steps > 0).all()) else None


def wide(module: M) -> M:
    """A copy in float64 and evaluation mode."""
    return copy.deepcopy(module).double().eval()


def numbers(n: int, dim: int) -> Tensor:
    """The same ``(n d)`` numbers at every call, about normal, in float64."""
    generator = torch.Generator().manual_seed(7 * n + dim)
    return torch.randn(n, dim, dtype=torch.float64, generator=generator)


def close(found: Tensor, wanted: Tensor) -> bool:
    """Whether two results are equal but for rounding to fp32."""
    return found.shape == wanted.shape and torch.allclose(
        found.double(), wanted.double(), rtol=1e-5, atol=1e-5
    )
