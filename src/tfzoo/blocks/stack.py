"""A stack of layers: an encoder or a decoder."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

import torch
from torch import Tensor, nn

from tfzoo.blocks.cache import DecoderCache
from tfzoo.blocks.clashes import check_clashes
from tfzoo.blocks.context import Context
from tfzoo.blocks.options import StackOptions
from tfzoo.blocks.transformer_layer import TransformerLayer
from tfzoo.contracts import Norm, Position
from tfzoo.dropout import dropout
from tfzoo.errors import BadOption
from tfzoo.masks import Mask
from tfzoo.registry import create, registry

Padding = Literal["none", "right", "left"]
"""The side on which a batch is padded; an argument, since reading it from a tensor would make the
host wait for the device.
"""


class Stack(nn.Module):
    """Positional encoding, ``layers`` times :class:`TransformerLayer`, and a final norm if
    ``residual`` is ``pre``.

    Args:
        dim: width of the model.
        options: depth, components and dropout.
        causal: self-attention is causal.
        cross: each layer has cross-attention to ``memory``, the output of an encoder.
        allow: names of clash rules to ignore.

    Raises:
        Clash: components that cannot work together.
        BadOption, UnknownName: an option that does not exist or has a wrong value.
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
        check_clashes(options, causal, allow)
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
        self.norm_mixes_tokens = any(
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

        ``valid`` is False at padding, None if there is none; ``padding`` is its side. With a
        ``cache``, ``x`` holds only the tokens that follow the cached ones, without padding.

        Raises:
            BadOption: more tokens than the positional encoding has positions.
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
        if padding == "left" and valid is not None:  # the first non-padding token has position 0
            k_pos = pos = (valid.cumsum(1) - 1).clamp(min=0)
        length = None
        if self.needs_length:
            length = (
                valid.sum(1, keepdim=True)
                if valid is not None
                else torch.full((1, 1), n, device=device)
            )
        # A causal mask already hides padding on the right from all non-padding tokens.
        hidden = None if self.causal and padding == "right" else valid
        context = Context(
            mask=Mask(self.causal, hidden, start),
            valid=valid if self.norm_mixes_tokens else None,
            bias=self.position.bias(pos, k_pos),
            rotation=self.position.angles(pos),
            memory=memory,
            memory_mask=memory_mask,
            cache=cache,
        )
        return context, pos, length
