"""A masked language model (Devlin et al. 2019), built from components."""

from collections.abc import Set
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor, nn

from tfzoo.base.linear import Linear, linear
from tfzoo.base.registry import create
from tfzoo.base.values import type_name
from tfzoo.contracts import Norm
from tfzoo.errors import BadOption
from tfzoo.masks import Mask, keys_of
from tfzoo.models.constructor import with_stack_options
from tfzoo.models.embedding import Embedding
from tfzoo.models.initialise import rescale
from tfzoo.models.inputs import check_ids
from tfzoo.models.options import StackOptions
from tfzoo.models.stack import Stack

Approximate = Literal["none", "tanh"]


class MaskedLanguageModel(nn.Module):
    """An embedding ``E``, an encoder, and the logits of the token that stands, or was masked, at
    each place: ``E norm(gelu(W x + b)) + c`` (BERT, RoBERTa).

    >>> import torch
    >>> model = MaskedLanguageModel(8000, dim=64, heads=4, layers=2, position="learned")
    >>> text = torch.randint(4, 8000, (2, 7))
    >>> model(text).shape, model.encode(text).shape
    (torch.Size([2, 7, 8000]), torch.Size([2, 7, 64]))

    Args:
        vocab_size: number of token ids.
        dim: width of the model.
        heads, layers, attention, ..., max_length: see :class:`tfzoo.models.options.StackOptions`.
        like: the name of an architecture (``tfzoo architectures``). Its options are used where none
            are given here: those of its layers, and for the class of its own model all of them.
        token_types: number of types of tokens, such as 2 for the two texts of a pair; a vector of
            the type is added to the embedding. 0: none.
        approximate: ``tanh``: the usual approximation of ``gelu`` in the logits (FNet).
        scale_embeddings: multiply embeddings by ``sqrt(dim)`` (Vaswani et al. 2017, section 3.4).
        init_std: scale the initial weights of each embedding and linear layer to this root mean
            square, such as 0.02 (Devlin et al. 2019); None: keep the initialisation of each.
        embedding_std: standard deviation of the initial embeddings, whatever ``init_std`` is; None:
            ``1 / sqrt(dim)``, or ``init_std`` where given.
        allow: names of clash rules to ignore.

    Raises:
        BadOption, UnknownName: an option or a component that does not exist, or a wrong value.
        Clash: components that cannot work together.
    """

    config: dict[str, Any]
    """The arguments of the constructor."""

    reads: ClassVar[Set[str]] = frozenset(("bias",))
    """The options of attention that its head reads."""

    @with_stack_options
    def __init__(
        self,
        vocab_size: int,
        dim: int = 512,
        heads: int = 8,
        layers: int = 6,
        *,
        like: str | None = None,
        token_types: int = 0,
        approximate: Approximate = "none",
        scale_embeddings: bool = True,
        init_std: float | None = None,
        embedding_std: float | None = None,
        allow: list[str] | None = None,
        **stack: Any,
    ) -> None:
        super().__init__()
        if approximate not in get_args(Approximate):
            raise BadOption(f"approximate must be {type_name(Approximate)}, not {approximate!r}")
        options = StackOptions(layers, heads, **stack)
        self.encoder = Stack(dim, options, causal=False, cross=False, allow=allow or ())
        self.max_positions = self.encoder.max_positions
        self.embedding = Embedding(
            vocab_size, dim, scale=scale_embeddings, token_types=token_types, std=embedding_std
        )
        self.head = Linear(dim, dim, bias=options.bias)
        self.head_norm: Norm = create("norm", options.norm, dim=dim)
        self.output_bias = nn.Parameter(torch.empty(vocab_size))
        self.approximate = approximate
        self.init_std = init_std
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """The bias of the logits starts at 0; apply ``init_std`` to all other modules."""
        nn.init.zeros_(self.output_bias)
        if self.init_std is not None:
            rescale(self, self.init_std)

    def forward(
        self, text: Tensor, types: Tensor | None = None, *, mask: Mask | None = None
    ) -> Tensor:
        """Logits: ``(b n) -> (b n v)``.

        ``types`` ``(b n)`` are the tokens' types, by default 0. ``mask`` says which tokens are
        real: :meth:`tfzoo.Mask.right` of lengths, or ``Mask(keys=...)``; None: all are.
        """
        return self.logits(self.hidden(text, types, mask=mask))

    def hidden(
        self,
        text: Tensor,
        types: Tensor | None = None,
        *,
        mask: Mask | None = None,
        read: Tensor | None = None,
    ) -> Tensor:
        """``norm(gelu(W x + b))``: ``(b n) -> (b n d)``; with ``read`` ``(m)``, those of these
        tokens alone, by their index among all ``b n``: ``(b n) -> (m d)``.
        """
        if read is not None and self.encoder.reads_valid:  # the norm may read the other tokens
            return self.hidden(text, types, mask=mask).flatten(0, 1).index_select(0, read)
        some = None if read is None else read[None]
        hidden = self.head(self.encode(text, types, mask=mask, read=some))
        hidden = nn.functional.gelu(hidden, approximate=self.approximate)
        if read is not None:
            return self.head_norm(hidden)[0]
        return self.head_norm(hidden, keys_of(mask))

    def logits(self, hidden: Tensor) -> Tensor:
        """The output projection: ``(* d) -> (* v)``."""
        return linear(hidden, self.embedding.weight, self.output_bias)

    def encode(
        self,
        text: Tensor,
        types: Tensor | None = None,
        *,
        mask: Mask | None = None,
        read: Tensor | None = None,
    ) -> Tensor:
        """The encoder's last hidden states: ``(b n) -> (b n d)``, with ``read`` ``(b|1 m)``
        ``-> (b|1 m d)``.
        """
        check_ids("text", text)
        return self.encoder(self.embedding(text, types), mask=mask, read=read)
