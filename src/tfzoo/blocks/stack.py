"""The base class of encoder and decoder."""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor, nn

from tfzoo.blocks.context import Context
from tfzoo.blocks.options import StackOptions
from tfzoo.blocks.positioned import Positioned
from tfzoo.blocks.transformer_layer import TransformerLayer
from tfzoo.contracts import Norm
from tfzoo.dropout import dropout
from tfzoo.masks import Mask
from tfzoo.registry import create


class Stack(Positioned):
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
        cross: bool,
        allow: Collection[str],
    ) -> None:
        super().__init__()
        self.add_position(dim, options, causal=causal, allow=allow)
        self.dropout = options.dropout
        self.layers = nn.ModuleList(
            TransformerLayer(dim, options, cross=cross) for _ in range(options.layers)
        )
        self.final_norm: Norm | None = (
            create("norm", options.norm, dim=dim) if options.residual == "pre" else None
        )

    def run(self, x: Tensor, mask: Mask | None, context: Context, pos: Tensor) -> Tensor:
        """Positional encoding, layers and final norm: ``(b n d) -> (b n d)``. ``mask`` is that of
        the forward pass; ``context`` and ``pos`` are from :meth:`context`.
        """
        length = None
        if self.needs_length:
            length = (
                torch.full((1, 1), x.shape[1], device=x.device)
                if mask is None or mask.keys is None
                else mask.keys.sum(1, keepdim=True)
            )
        x = dropout(self.position.embed(x, pos, length), self.dropout if self.training else 0.0)
        for index, layer in enumerate(self.layers):
            x = layer(x, context, index)
        return x if self.final_norm is None else self.final_norm(x, context.valid)
