"""The interface of a mixer, what stands in self-attention's place."""

from __future__ import annotations

from torch import Tensor

from tfzoo.blocks.context import Context
from tfzoo.contracts import Component


class Mixer(Component):
    """Mixes the tokens of a sequence: ``(b n d) -> (b n d)``. Supplied are ``dim``, ``options``
    (:class:`~tfzoo.blocks.options.StackOptions`), ``causal``, and the index ``layer`` of
    ``layers``.

    Padding (:meth:`~tfzoo.blocks.context.Context.non_padding`) has no influence on real tokens, and
    in a causal stack neither have later tokens. What decoding needs of earlier tokens is kept in
    ``context.cache.target[layer]``, a :class:`~tfzoo.blocks.cache.LayerCache`.
    """

    def forward(self, x: Tensor, context: Context, layer: int) -> Tensor:
        """``layer`` is the index of the layer in the cache."""
        raise NotImplementedError
