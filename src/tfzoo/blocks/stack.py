"""A stack of layers: an encoder or a decoder."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

import torch
from torch import Tensor, nn

from tfzoo.blocks.cache import DecoderCache
from tfzoo.blocks.clashes import refuse
from tfzoo.blocks.context import Context
from tfzoo.blocks.options import StackOptions
from tfzoo.blocks.transformer_layer import TransformerLayer
from tfzoo.contracts import Norm, Position
from tfzoo.dropout import dropout
from tfzoo.errors import BadOption
from tfzoo.masks import Mask
from tfzoo.registry import create, registry

Padding = Literal["none", "right", "left"]
"""On which side a batch is padded. The caller says it, so that the model tests no tensor for it."""


class Stack(nn.Module):
    """Positions, :class:`TransformerLayer` times ``layers``, and a final norm if ``residual`` is
    ``pre``.

    Args:
        dim: width of the model.
        options: depth, components and dropout.
        causal: a token does not see later tokens.
        cross: each layer has cross-attention to a memory.
        allow: names of the clashes to run all the same.

    Raises:
        Clash: components that cannot work together.
        BadOption, UnknownName: options that fit no stack.
    """

    def __init__(
        self,
        dim: int,
        options: StackOptions,
        *,
        causal: bool,
        cross: bool = False,
        allow: Collection[str] = (),
    ) -> None:
        super().__init__()
        refuse(options, causal, allow)
        self.causal = causal
        self.dropout = options.dropout
        self.position: Position = create(
            "position",
            options.position,
            dim=dim,
            heads=options.heads,
            head_dim=options.width_of_head(dim),
            max_length=options.max_length,
            causal=causal,
        )
        traits = self.position.entry.traits
        self.needs_length = "needs_length" in traits
        self.max_positions = options.max_length if "bounded" in traits else None
        self.mixes = any(
            trait.startswith("mixes_tokens")
            for trait in registry("norm").options(options.norm)[0].traits
        )
        self.layers = nn.ModuleList(
            TransformerLayer(dim, options, cross=cross) for _ in range(options.layers)
        )
        self.final_norm: Norm | None = (
            create("norm", options.norm, dim=dim) if options.residual == "pre" else None
        )

    def forward(
        self,
        x: Tensor,
        valid: Tensor | None = None,
        padding: Padding = "right",
        *,
        memory: Tensor | None = None,
        memory_mask: Mask | None = None,
        cache: DecoderCache | None = None,
    ) -> Tensor:
        """``(b n d), (b n), (b k d) -> (b n d)``.

        ``valid`` is True at real tokens, None when all are; ``padding`` is the side of the others.
        With a ``cache``, ``x`` holds the tokens after those already seen, all of them real.

        Raises:
            BadOption: more tokens than a position with a table has.
        """
        start = 0 if cache is None else cache.length
        if self.max_positions is not None and start + x.shape[1] > self.max_positions:
            raise BadOption(
                f"{start + x.shape[1]} tokens, but position {self.position.entry.name!r} has "
                f"{self.max_positions}: raise model.max_length"
            )
        context, pos, length = self._context(x, valid, padding, start, memory, memory_mask, cache)
        x = dropout(self.position.embed(x, pos, length), self.dropout if self.training else 0.0)
        for index, layer in enumerate(self.layers):
            x = layer(x, context, index)
        if cache is not None:
            cache.length += x.shape[1]
        return x if self.final_norm is None else self.final_norm(x, context.valid)

    def _context(
        self,
        x: Tensor,
        valid: Tensor | None,
        padding: Padding,
        start: int,
        memory: Tensor | None,
        memory_mask: Mask | None,
        cache: DecoderCache | None,
    ) -> tuple[Context, Tensor, Tensor | None]:
        n, device = x.shape[1], x.device
        valid = None if padding == "none" else valid
        pos = torch.arange(start, start + n, device=device)[None]
        k_pos = pos if start == 0 else torch.arange(start + n, device=device)[None]
        if (
            padding == "left" and valid is not None
        ):  # rows differ: the first real token of each stands at 0
            k_pos = pos = (valid.cumsum(1) - 1).clamp(min=0)
        length = None
        if self.needs_length:
            length = (
                valid.sum(1, keepdim=True)
                if valid is not None
                else torch.full((1, 1), n, device=device)
            )
        # With padding on the right, a causal mask hides it from every real token.
        hidden = None if self.causal and padding == "right" else valid
        context = Context(
            mask=Mask(self.causal, hidden, start),
            valid=valid if self.mixes else None,
            bias=self.position.bias(pos, k_pos),
            rotation=self.position.angles(pos),
            memory=memory,
            memory_mask=memory_mask,
            cache=cache,
        )
        return context, pos, length
