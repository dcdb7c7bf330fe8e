"""A Transformer encoder or decoder that classifies texts, built from components."""

from typing import Any

import torch
from torch import Tensor, nn

from tfzoo.base.adapters import has_hooks
from tfzoo.base.functional import dropout
from tfzoo.base.linear import Linear
from tfzoo.base.registry import PoolingSpec, create
from tfzoo.base.values import check_range
from tfzoo.contracts import Pooling
from tfzoo.errors import BadOption
from tfzoo.masks import Mask, keys_of
from tfzoo.models.constructor import with_stack_options
from tfzoo.models.embedding import Embedding
from tfzoo.models.initialise import rescale
from tfzoo.models.inputs import check_ids
from tfzoo.models.options import StackOptions
from tfzoo.models.rules import check_clashes
from tfzoo.models.stack import Stack


class TransformerClassifier(nn.Module):
    """An encoder (Vaswani et al. 2017, section 3.1), or with ``causal`` a decoder without memory, a
    pooling of its output ``x`` to one vector per text, and a linear layer: ``W pool(x) + b``.

    >>> import torch
    >>> model = TransformerClassifier(8000, classes=6, dim=64, heads=4, layers=2, pooling="max")
    >>> model(torch.randint(4, 8000, (2, 7))).shape
    torch.Size([2, 6])

    Args:
        vocab_size: number of token ids.
        classes: number of classes, or of other numbers that are given for a text.
        dim: width of the model.
        heads, layers, attention, ..., max_length: see :class:`tfzoo.models.options.StackOptions`.
        like: the name of an architecture (``tfzoo architectures``). Its options are used where none
            are given here: those of its layers, and for the class of its own model all of them.
        pooling: the pooling over a text's tokens, by name or with options; see ``tfzoo list
            pooling``. None: none; each token is classified, ``W x + b``.
        token_head: without a pooling, a pooling that is applied to each token alone, for the layer
            that it has (ModernBERT); None: none.
        pooled_dropout: dropout probability of the vectors that are classified.
        causal: a token attends to itself and earlier tokens alone, as in a decoder (Radford et al.
            2018, section 3.2).
        token_types: number of types of tokens, such as 2 for the two texts of a pair; a vector of
            the type is added to the embedding (BERT). 0: none.
        scale_embeddings: multiply embeddings by ``sqrt(dim)`` (section 3.4).
        init_std: scale the initial weights of each embedding and linear layer to this root mean
            square; None: keep the initialisation of each.
        embedding_std: standard deviation of the initial embeddings, whatever ``init_std`` is; None:
            ``1 / sqrt(dim)``, or ``init_std`` where given.
        allow: names of clash rules to ignore.

    Raises:
        BadOption, UnknownName: an option or a component that does not exist, or a wrong value.
        Clash: components that cannot work together.
    """

    config: dict[str, Any]
    """The arguments of the constructor."""
    separator: int | None = None
    """The id that ends the first text of a pair: with ``token_types``, tokens after it have type 1
    where types are not given.
    """

    @with_stack_options
    def __init__(
        self,
        vocab_size: int,
        classes: int,
        dim: int = 512,
        heads: int = 8,
        layers: int = 6,
        *,
        like: str | None = None,
        pooling: PoolingSpec | None = "mean",
        token_head: PoolingSpec | None = None,
        pooled_dropout: float = 0.0,
        causal: bool = False,
        token_types: int = 0,
        scale_embeddings: bool = True,
        init_std: float | None = None,
        embedding_std: float | None = None,
        allow: list[str] | None = None,
        **stack: Any,
    ) -> None:
        super().__init__()
        check_range("classes", classes, ge=1, whole=True)
        check_range("pooled_dropout", pooled_dropout, ge=0, lt=1)
        options = StackOptions(layers, heads, **stack)
        last = (options.each_layer() or [options])[-1]
        check_clashes(last.parts(causal, pooling), allow or ())
        self.embedding = Embedding(
            vocab_size, dim, scale=scale_embeddings, token_types=token_types, std=embedding_std
        )
        self.encoder = Stack(dim, options, causal=causal, cross=False, allow=allow or ())
        self.max_positions = self.encoder.max_positions
        if pooling is not None and token_head is not None:
            raise BadOption("token_head is of each token: it needs pooling: null")
        self.pooling: Pooling | None = None
        if pooling is not None:
            self.pooling = create("pooling", pooling, dim=dim)
        self.token_head: Pooling | None = None
        if token_head is not None:
            self.token_head = create("pooling", token_head, dim=dim)
        self.pooled_dropout = pooled_dropout
        self.head = Linear(dim, classes)
        self.init_std = init_std
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Apply ``init_std``. Submodules initialise their parameters themselves."""
        if self.init_std is not None:
            rescale(self, self.init_std)

    def forward(
        self, text: Tensor, types: Tensor | None = None, *, mask: Mask | None = None
    ) -> Tensor:
        """Logits: ``(b n) -> (b classes)``, without a pooling ``(b n classes)``.

        ``mask`` says which tokens are real: :meth:`tfzoo.Mask.right` of lengths, or
        ``Mask(keys=...)``; None: all are. ``types`` ``(b n)`` are the tokens' types, by default 0,
        or those of a pair.
        """
        check_ids("text", text)
        valid = keys_of(mask)
        read = self.token_read(text, valid)
        x = self.encode(text, types, mask=mask, read=read)
        if read is not None and valid is not None:
            valid = valid.any(1, keepdim=True)
        if self.pooling is not None:
            x = self.pooling(x, valid)
        elif self.token_head is not None:
            x = self.token_head(x.flatten(0, 1)[:, None]).view_as(x)
        return self.head(dropout(x, self.pooled_dropout if self.training else 0.0))

    def token_read(self, text: Tensor, valid: Tensor | None) -> Tensor | None:
        """The one token of each text that the pooling reads, by its index among all ``b n``: ``(b
        1)``; None if it reads more, or something outside sees what it is given.
        """
        pooling = self.pooling
        if not isinstance(pooling, Pooling) or not text.shape[1]:
            return None
        if has_hooks(pooling) or has_hooks(self.encoder):
            return None
        place = pooling.token_index(text, valid)
        if place is None:
            return None
        first = torch.arange(len(text), device=text.device) * text.shape[1]
        return (first + place)[:, None]

    def encode(
        self,
        text: Tensor,
        types: Tensor | None = None,
        *,
        mask: Mask | None = None,
        read: Tensor | None = None,
    ) -> Tensor:
        """The last hidden states: ``(b n) -> (b n d)``; with ``read`` ``(b|1 m)``, those of these
        tokens alone, by their index among all ``b n``: ``(b n) -> (b|1 m d)``.
        """
        check_ids("text", text)
        if types is None and self.separator is not None and self.embedding.types is not None:
            types = types_of(text, self.separator)
        return self.encoder(self.embedding(text, types), mask=mask, read=read)


def types_of(ids: Tensor, separator: int) -> Tensor:
    """Which text of a pair a token belongs to, 0 up to the first separator, 1 after it (Devlin et
    al. 2019, section 3.2): ``(b n) -> (b n)``.

    >>> import torch
    >>> types_of(torch.tensor([[5, 6, 3, 7, 3, 0]]), 3).tolist()
    [[0, 0, 0, 1, 1, 1]]
    """
    found = (ids == separator).long()
    return (found.cumsum(1) - found).clamp(max=1)
