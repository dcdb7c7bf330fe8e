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
    ``context.cache.target[layer]``, a :class:`~tfzoo.blocks.cache.LayerCache`. Traits:

    - ``attends``: it reads the options of attention, the positional encoding's rotation and bias,
      and any mask.
    - ``identity``: the output is the input; a layer then has no such sublayer.
    - ``ordered``: the output depends on the order of tokens, without a positional encoding.
    - ``reach``: tokens farther away than some distance have no influence.
    - ``bidirectional``: an output depends on later tokens, so that it cannot be in a decoder.
    - ``breaks_graph``: ``torch.compile`` cannot trace it into one graph.
    """

    def forward(self, x: Tensor, context: Context, layer: int) -> Tensor:
        """``layer`` is the index of the layer in the cache."""
        raise NotImplementedError
