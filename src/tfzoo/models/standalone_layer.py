"""The base class of an encoder or decoder layer that is used outside a stack."""

from __future__ import annotations

from collections.abc import Collection

from torch import Tensor

from tfzoo.base.registry import registry
from tfzoo.models.context import Context
from tfzoo.models.options import StackOptions
from tfzoo.models.positioned import Positioned, check_no_embedding, layer_context
from tfzoo.models.transformer_layer import TransformerLayer


class StandaloneLayer(Positioned, TransformerLayer):
    """A :class:`TransformerLayer` with a positional encoding of its own.

    Raises:
        BadOption: a positional encoding that adds to the embeddings.
        Clash: components that cannot work together.
    """

    def __init__(
        self, dim: int, options: StackOptions, *, causal: bool, cross: bool, allow: Collection[str]
    ) -> None:
        check_no_embedding(registry("position").options(options.position)[0])
        TransformerLayer.__init__(self, dim, options, causal=causal, cross=cross)
        self.add_position(dim, options, causal=causal, allow=allow)

    def run(self, x: Tensor, context: Context) -> Tensor:
        """The sublayers, with the layer's own positional encoding and window: ``(b n d) -> (b n
        d)``. ``context`` is from :meth:`context`.
        """
        context = layer_context(context, self.position, self.window)
        return TransformerLayer.forward(self, x, context, 0)
