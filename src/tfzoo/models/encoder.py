"""An encoder, and one layer of it."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from tfzoo.base.registry import PositionSpec
from tfzoo.masks import Mask
from tfzoo.models.constructor import with_stack_options
from tfzoo.models.inputs import check_tokens
from tfzoo.models.options import StackOptions
from tfzoo.models.stack import Stack
from tfzoo.models.standalone_layer import StandaloneLayer


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

    def forward(  # type: ignore[override]  # it has no memory
        self,
        x: Tensor,
        *,
        mask: Mask | None = None,
        positions: Tensor | None = None,
    ) -> Tensor:
        """``(b n d) -> (b n d)``. Outputs at padding are without meaning, and what stands there,
        also NaN, has no influence on others and their gradients.

        Args:
            mask: ``Mask(keys=non_padding)``, boolean ``(b n)``, False at padding, or
                :meth:`tfzoo.Mask.right`, which is faster; None: no padding.
                ``Mask(allowed=...)`` ``(b|1 1|h n n)`` is True where a token may attend to another.
            positions: ``(b n)`` or ``(1 n)``, integers, for packed or shifted sequences. Default:
                0, 1, ... in each row; padding is not counted.

        Raises:
            BadOption: a shape does not fit, the mask is causal, or a token has no position in a
                bounded positional encoding.
            Clash: ``mask.allowed`` hides tokens that the norm reads, as instance norm does.
        """
        return super().forward(x, mask=mask, positions=positions)


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

    def forward(  # type: ignore[override]  # without a stack, it computes its own context
        self,
        x: Tensor,
        *,
        mask: Mask | None = None,
        positions: Tensor | None = None,
    ) -> Tensor:
        """``(b n d) -> (b n d)``; arguments and errors are those of :meth:`Encoder.forward`."""
        check_tokens(x, self.dim, self.causal, mask, positions)
        context = self.context(x, mask, positions)
        return self.run(self.zero_padding(x, mask), context)
