"""One layer of an encoder or a decoder, and its sublayers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from tfzoo.blocks.activation_checkpointing import checkpoint_activations
from tfzoo.blocks.context import Context
from tfzoo.blocks.multihead import CrossAttention, SelfAttention
from tfzoo.blocks.options import Residual, StackOptions
from tfzoo.contracts import FeedForward, Norm
from tfzoo.dropout import dropout
from tfzoo.registry import create


class Sublayer(nn.Module):
    """A norm, a dropout and a residual connection around ``inner``.

    ``pre``: ``x + f(norm(x))`` (Xiong et al. 2020); ``post``: ``norm(x + f(x))`` (Vaswani et al.
    2017, section 3.1); ``none``: ``f(norm(x))``, no residual connection.
    """

    def __init__(self, inner: nn.Module, norm: Norm, residual: Residual, p: float) -> None:
        super().__init__()
        self.inner = inner
        self.norm = norm
        self.residual = residual
        self.p = p

    def forward(self, x: Tensor, valid: Tensor | None, *args: Any) -> Tensor:
        """``(b n d), (b n) -> (b n d)``; ``args`` go to ``inner``."""
        p = self.p if self.training else 0.0
        if self.residual == "post":
            return self.norm(x + dropout(self.inner(x, *args), p), valid)  # type: ignore[no-any-return]
        y = dropout(self.inner(self.norm(x, valid), *args), p)
        return y if self.residual == "none" else x + y


class TransformerLayer(nn.Module):
    """Self-attention, cross-attention if ``cross``, and a feed-forward sublayer.

    A feed-forward component with the trait ``identity`` is left out. ``compiled`` and
    ``activation_checkpointing`` have an effect only in training mode with gradients enabled and
    without a cache.
    """

    compiled = False
    activation_checkpointing = False

    def __init__(self, dim: int, options: StackOptions, *, cross: bool) -> None:
        super().__init__()

        def sublayer(inner: nn.Module) -> Sublayer:
            return Sublayer(
                inner, create("norm", options.norm, dim=dim), options.residual, options.dropout
            )

        self.self_attention = sublayer(SelfAttention(dim, options))
        self.cross_attention = sublayer(CrossAttention(dim, options)) if cross else None
        feedforward: FeedForward = create("feedforward", options.feedforward, dim=dim)
        self.feedforward_dropout = options.feedforward_dropout
        self.feedforward = None if "identity" in feedforward.entry.traits else sublayer(feedforward)

    def forward(self, x: Tensor, context: Context, layer: int) -> Tensor:
        """``(b n d) -> (b n d)``"""
        if context.cache is not None or not self.training or not torch.is_grad_enabled():
            return self.sublayers(x, context, layer)
        run = compiled() if self.compiled else TransformerLayer.sublayers
        return (
            checkpoint_activations(run, self, self, x, context, 0)
            if self.activation_checkpointing
            else run(self, x, context, 0)
        )

    def sublayers(self, x: Tensor, context: Context, layer: int) -> Tensor:
        """Apply the sublayers; ``layer`` is the index of this layer in the cache."""
        x = self.self_attention(x, context.valid, context, layer)
        if self.cross_attention is not None:
            x = self.cross_attention(x, context.valid, context, layer)
        if self.feedforward is not None:
            x = self.feedforward(
                x, context.valid, self.feedforward_dropout if self.training else 0.0
            )
        return x


@cache
def compiled() -> Callable[[TransformerLayer, Tensor, Context, int], Tensor]:
    """The compiled forward function, one for all layers and lengths."""
    return torch.compile(TransformerLayer.sublayers, dynamic=True)
