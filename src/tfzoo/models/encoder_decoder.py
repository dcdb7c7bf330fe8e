"""Encoder and decoder, and one layer of each: vectors in, vectors out."""

from collections.abc import Collection
from typing import Any

from torch import Tensor

from tfzoo.base.registry import PositionSpec, registry
from tfzoo.masks import Mask
from tfzoo.models.constructor import with_stack_options
from tfzoo.models.context import DecoderCache
from tfzoo.models.options import StackOptions
from tfzoo.models.positioned import Positioned, check_no_embedding, layer_context
from tfzoo.models.stack import Stack
from tfzoo.models.transformer_layer import TransformerLayer


class StandaloneLayer(Positioned, TransformerLayer):
    """A :class:`TransformerLayer` with a positional encoding of its own."""

    def __init__(
        self, dim: int, options: StackOptions, *, causal: bool, cross: bool, allow: Collection[str]
    ) -> None:
        check_no_embedding(registry("position").options(options.position)[0])
        TransformerLayer.__init__(self, dim, options, causal=causal, cross=cross)
        self.add_position(dim, options, causal=causal, cross=cross, allow=allow)

    def forward(  # type: ignore[override]  # without a stack, it computes its own context
        self,
        x: Tensor,
        memory: Tensor | None = None,
        *,
        mask: Mask | None = None,
        memory_mask: Mask | None = None,
        positions: Tensor | None = None,
        cache: DecoderCache | None = None,
    ) -> Tensor:
        """``(b n d), (b k d) -> (b n d)``; arguments and errors are those of
        :meth:`Decoder.forward`.
        """
        context = self.context(x, memory, mask, memory_mask, positions, cache)
        context = layer_context(context, self.position, self.window)
        y = super().forward(self.zero_padding(x, mask), context, 0)
        if cache is not None:
            cache.length += x.shape[1]
        return y


class Encoder(Stack):
    """A stack of Transformer layers in which every token sees all tokens (Vaswani et al. 2017,
    section 3.1): vectors in, vectors out.

    >>> import tfzoo, torch
    >>> encoder = Encoder(64, heads=4, layers=2, norm="rms", position="rotary")
    >>> x, non_padding = torch.randn(2, 7, 64), torch.arange(7) < torch.tensor([[7], [4]])
    >>> encoder(x, mask=tfzoo.Mask(keys=non_padding)).shape
    torch.Size([2, 7, 64])

    Args:
        dim: width of the vectors.
        heads, layers, attention, ..., max_length: see :class:`tfzoo.models.options.StackOptions`.
        allow: names of clash rules to ignore.

    Raises:
        BadOption, UnknownName: an option or a component that does not exist, or a wrong value.
        Clash: components that cannot work together.
    """

    config: dict[str, Any]
    """The arguments of the constructor."""

    @with_stack_options
    def __init__(
        self,
        dim: int,
        heads: int = 8,
        layers: int = 6,
        *,
        allow: list[str] | None = None,
        **stack: Any,
    ) -> None:
        options = StackOptions(layers, heads, **stack)
        super().__init__(dim, options, causal=False, cross=False, allow=allow or ())


class EncoderLayer(StandaloneLayer):
    """Self-attention and a feed-forward sublayer, with norms and residual connections: one layer of
    an :class:`Encoder`, for a model of one's own.

    The layer applies positional encodings that act on attention (see ``tfzoo list position``), such
    as ``rotary``. Those that are added to the embeddings belong before the first layer: apply
    ``tfzoo.create("position", ...).embed`` there. An :class:`Encoder` applies both kinds, and
    computes masks and biases once for all layers.

    >>> import torch
    >>> layer = EncoderLayer(64, heads=4, attention="additive", position="alibi")
    >>> layer(torch.randn(2, 7, 64)).shape
    torch.Size([2, 7, 64])

    Args:
        dim: width of the vectors.
        position: a positional encoding that acts on attention.
        heads, attention, ..., max_length: see :class:`tfzoo.models.options.StackOptions`.
        allow: names of clash rules to ignore.

    Raises:
        BadOption, UnknownName: an option or a component that does not exist, or a wrong value; a
            position that adds to the embeddings.
        Clash: components that cannot work together.
    """

    config: dict[str, Any]
    """The arguments of the constructor."""

    @with_stack_options
    def __init__(
        self,
        dim: int,
        heads: int = 8,
        *,
        position: PositionSpec = "none",
        allow: list[str] | None = None,
        **stack: Any,
    ) -> None:
        options = StackOptions(1, heads, position=position, **stack)
        super().__init__(dim, options, causal=False, cross=False, allow=allow or ())


class Decoder(Stack):
    """A stack of Transformer layers in which a token sees itself and earlier ones, and the memory
    if there is one (Vaswani et al. 2017, section 3.1): vectors in, vectors out.

    The decoder of an encoder-decoder model reads the encoder's output as ``memory``:

    >>> import torch
    >>> decoder = Decoder(64, heads=4, layers=2, norm="rms", position="rotary")
    >>> x, memory = torch.randn(2, 5, 64), torch.randn(2, 7, 64)
    >>> decoder(x, memory).shape
    torch.Size([2, 5, 64])

    A language model has no memory. With a cache, it takes the new tokens only:

    >>> decoder = Decoder(64, heads=4, layers=2, cross_attention=False).eval()
    >>> cache = decoder.init_cache()
    >>> y = torch.cat([decoder(x[:, :4], cache=cache), decoder(x[:, 4:], cache=cache)], 1)
    >>> torch.allclose(y, decoder(x), atol=1e-5)
    True

    Args:
        dim: width of the vectors.
        heads, layers, attention, ..., max_length: see :class:`tfzoo.models.options.StackOptions`.
        cross_attention: each layer has cross-attention to a memory.
        causal: a token attends to itself and earlier ones. False: to all tokens, as in a decoder of
            learned queries (DETR, Carion et al. 2020, arXiv:2005.12872); there is no cache then.
        allow: names of clash rules to ignore.

    Raises:
        BadOption, UnknownName: an option or a component that does not exist, or a wrong value.
        Clash: components that cannot work together.
    """

    config: dict[str, Any]
    """The arguments of the constructor."""

    @with_stack_options
    def __init__(
        self,
        dim: int,
        heads: int = 8,
        layers: int = 6,
        *,
        cross_attention: bool = True,
        causal: bool = True,
        allow: list[str] | None = None,
        **stack: Any,
    ) -> None:
        options = StackOptions(layers, heads, **stack)
        super().__init__(dim, options, causal=causal, cross=cross_attention, allow=allow or ())


class DecoderLayer(StandaloneLayer):
    """Self-attention, cross-attention and a feed-forward sublayer, with norms and residual
    connections: one layer of a :class:`Decoder`, for a model of one's own.

    Its positional encoding is as in :class:`tfzoo.EncoderLayer`, and its cache as in
    :class:`Decoder`.

    >>> import torch
    >>> layer = DecoderLayer(64, heads=4, position="rotary")
    >>> layer(torch.randn(2, 5, 64), torch.randn(2, 7, 64)).shape
    torch.Size([2, 5, 64])

    Args:
        dim: width of the vectors.
        position: a positional encoding that acts on attention.
        heads, attention, ..., max_length: see :class:`tfzoo.models.options.StackOptions`.
        cross_attention, causal, allow: see :class:`Decoder`.

    Raises:
        BadOption, UnknownName: an option or a component that does not exist, or a wrong value; a
            position that adds to the embeddings.
        Clash: components that cannot work together.
    """

    config: dict[str, Any]
    """The arguments of the constructor."""

    @with_stack_options
    def __init__(
        self,
        dim: int,
        heads: int = 8,
        *,
        cross_attention: bool = True,
        causal: bool = True,
        position: PositionSpec = "none",
        allow: list[str] | None = None,
        **stack: Any,
    ) -> None:
        options = StackOptions(1, heads, position=position, **stack)
        super().__init__(dim, options, causal=causal, cross=cross_attention, allow=allow or ())
