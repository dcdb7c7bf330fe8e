"""The interface of a mixer, the sublayer that mixes tokens: self-attention or a replacement."""

from __future__ import annotations

from torch import Tensor

from tfzoo.blocks.context import Context
from tfzoo.contracts import Component


class Mixer(Component):
    """Mixes the tokens of a sequence: ``(b n d) -> (b n d)``. Supplied are ``dim``, ``options``
    (:class:`~tfzoo.blocks.options.StackOptions`), ``causal``, and the index ``layer`` of
    ``layers``.

    Outputs at other tokens must not depend on padding
    (:meth:`~tfzoo.blocks.context.Context.non_padding`) nor, in a causal stack, on later tokens. To
    decode token by token, a mixer stores what it needs of earlier tokens in
    ``context.cache.target[layer]``, a :class:`~tfzoo.blocks.cache.LayerCache`.
    """

    def forward(self, x: Tensor, context: Context, layer: int) -> Tensor:
        """``layer`` is the index of the layer in the cache."""
        raise NotImplementedError
