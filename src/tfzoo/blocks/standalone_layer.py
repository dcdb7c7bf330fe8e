"""The base class of an encoder or decoder layer that is used outside a stack."""

from __future__ import annotations

from collections.abc import Collection

from tfzoo.blocks.clashes import names_that_fit
from tfzoo.blocks.options import StackOptions
from tfzoo.blocks.positioned import Positioned
from tfzoo.blocks.transformer_layer import TransformerLayer
from tfzoo.contracts import Position
from tfzoo.errors import BadOption
from tfzoo.registry import Entry, registry


def embeds(position: Entry) -> bool:
    """Whether a positional encoding adds to the embeddings."""
    return getattr(position.cls, "embed", None) is not Position.embed


class StandaloneLayer(Positioned, TransformerLayer):
    """A :class:`TransformerLayer` with a positional encoding of its own.

    Raises:
        BadOption: a positional encoding that adds to the embeddings.
        Clash: components that cannot work together.
    """

    def __init__(
        self, dim: int, options: StackOptions, *, causal: bool, cross: bool, allow: Collection[str]
    ) -> None:
        position = registry("position").options(options.position)[0]
        if embeds(position):
            raise BadOption(
                f"position {position.name!r} adds to the embeddings, before the first layer. Give "
                "it to tfzoo.Encoder or tfzoo.Decoder, or apply tfzoo.create('position', "
                f"{position.name!r}, ...).embed to the layer's input. In a layer: "
                + names_that_fit("position", lambda one: not embeds(one))
            )
        TransformerLayer.__init__(self, dim, options, cross=cross)
        self.add_position(dim, options, causal=causal, allow=allow)
