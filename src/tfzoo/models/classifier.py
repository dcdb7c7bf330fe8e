"""A Transformer encoder that classifies texts, of any components."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from tfzoo.blocks.clashes import refuse
from tfzoo.blocks.linear import Linear
from tfzoo.blocks.options import Residual, StackOptions
from tfzoo.blocks.stack import Padding, Stack
from tfzoo.contracts import Pooling
from tfzoo.dropout import dropout
from tfzoo.errors import BadOption
from tfzoo.models.embedding import Embedding
from tfzoo.models.initialise import rescale
from tfzoo.registry import (
    AttentionSpec,
    FeedForwardSpec,
    NormSpec,
    PoolingSpec,
    PositionSpec,
    create,
)
from tfzoo.special_ids import PAD


class TransformerClassifier(nn.Module):
    """An encoder (Vaswani et al. 2017, section 3.1), a pooling of its states to one vector a text,
    and a linear layer: ``W pool(x) + b``.

    >>> import torch
    >>> model = TransformerClassifier(vocab_size=8000, classes=6, dim=64, heads=4, layers=2, norm="rms", pooling="max")
    >>> model(torch.randint(4, 8000, (2, 7))).shape
    torch.Size([2, 6])

    Args:
        vocab_size: number of ids.
        classes: number of labels.
        dim: width of the model.
        heads, layers, attention, ..., max_length: see :class:`tfzoo.blocks.options.StackOptions`.
        pooling: how the states of a text's tokens become one vector; see ``tfzoo list pooling``.
        pooled_dropout: dropout on that vector.
        scale_embeddings: multiply embeddings by ``sqrt(dim)`` (section 3.4).
        init_std: start embeddings and linear maps with entries of this root mean square; None: each
            as its paper has it.
        allow: names of clashes to run with all the same.

    Raises:
        BadOption, UnknownName: an option that does not exist or fits no model.
        Clash: components that cannot work together.
    """

    def __init__(
        self,
        vocab_size: int,
        classes: int,
        dim: int = 512,
        heads: int = 8,
        layers: int = 6,
        *,
        attention: AttentionSpec = "scaled_dot_product",
        norm: NormSpec = "layer",
        position: PositionSpec = "sinusoidal",
        feedforward: FeedForwardSpec = "relu",
        pooling: PoolingSpec = "mean",
        head_dim: int | None = None,
        value_head_dim: int | None = None,
        kv_heads: int | None = None,
        share_query_key: bool = False,
        temperature: float = 1.0,
        dropout: float = 0.1,
        attention_dropout: float = 0.0,
        feedforward_dropout: float = 0.0,
        pooled_dropout: float = 0.0,
        residual: Residual = "pre",
        max_length: int = 1024,
        scale_embeddings: bool = True,
        init_std: float | None = None,
        allow: list[str] | None = None,
    ) -> None:
        given = {key: value for key, value in locals().items() if key not in ("self", "__class__")}
        super().__init__()
        self.config: dict[str, Any] = given
        if dim < 1 or vocab_size < 1:
            raise BadOption(f"dim={dim} and vocab_size={vocab_size} must be at least 1")
        if classes < 2:
            raise BadOption(
                f"classes={classes} must be at least 2: with fewer there is nothing to tell apart"
            )
        if init_std is not None and not init_std > 0:
            raise BadOption(f"init_std={init_std} must be over 0")
        if not 0 <= pooled_dropout < 1:
            raise BadOption(
                f"pooled_dropout={pooled_dropout} is a probability: at least 0 and under 1"
            )
        options = StackOptions().but(
            {key: given[key] for key in given.keys() & StackOptions.__dataclass_fields__.keys()}
        )
        refuse(options, causal=False, allow=allow or (), pooling=pooling)
        self.embedding = Embedding(vocab_size, dim, scale=scale_embeddings)
        self.encoder = Stack(dim, options, causal=False, allow=allow or ())
        self.pooling: Pooling = create("pooling", pooling, dim=dim)
        self.pooled_dropout = pooled_dropout
        self.head = Linear(dim, classes)
        self.init_std = init_std
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Nothing of its own: scales what its parts started with, where ``init_std`` says so."""
        if self.init_std is not None:
            rescale(self, self.init_std)

    @property
    def pad(self) -> int:
        """The id of padding."""
        return PAD

    @property
    def max_positions(self) -> int | None:
        """The most tokens that the positions allow, None when any number."""
        return self.encoder.max_positions

    def forward(self, text: Tensor, *, padding: Padding = "right") -> Tensor:
        """Logits of the classes: ``(b n) -> (b classes)``; ids equal to ``pad`` are padding, which
        stands on the side ``padding``.
        """
        pooled = self.pooling(self.encode(text, padding=padding), self.valid(text, padding))
        return self.head(dropout(pooled, self.pooled_dropout if self.training else 0.0))  # type: ignore[no-any-return]

    def encode(self, text: Tensor, *, padding: Padding = "right") -> Tensor:
        """The states of the tokens: ``(b n) -> (b n d)``."""
        return self.encoder(self.embedding(text), self.valid(text, padding), padding)  # type: ignore[no-any-return]

    def valid(self, ids: Tensor, padding: Padding) -> Tensor | None:
        """True at real tokens, None where the batch is known to hold no padding."""
        return None if padding == "none" else ids != self.pad
