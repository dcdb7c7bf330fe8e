"""The encoder-decoder Transformer (Vaswani et al. 2017, section 3), built from components."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from tfzoo.base.linear import linear
from tfzoo.base.values import check_range, type_name
from tfzoo.errors import BadOption, TfzooError, under
from tfzoo.masks import Mask
from tfzoo.models.constructor import with_stack_options
from tfzoo.models.context import DecoderCache
from tfzoo.models.embedding import Embedding
from tfzoo.models.initialise import reset_output
from tfzoo.models.inputs import check_ids, check_step
from tfzoo.models.options import StackOptions
from tfzoo.models.stack import Stack

Tie = Literal["all", "target", "embeddings", "none"]


@contextmanager
def side(name: str, changes: Mapping[str, Any] | None) -> Iterator[None]:
    """Context in which an error is about a side, unless it names an option that both have."""
    try:
        yield
    except TfzooError as error:
        option = re.split("[. ]", error.key)[0]
        if not changes or option not in {"", *changes}:
            raise
        with under(name):
            raise


class Transformer(nn.Module):
    """An encoder, a decoder, embeddings and an output projection.

    >>> model = Transformer(8000, dim=64, heads=4, layers=2, norm="rms", position="rotary")
    >>> source, target = torch.randint(4, 8000, (2, 7)), torch.randint(4, 8000, (2, 5))
    >>> model(source, target).shape
    torch.Size([2, 5, 8000])

    Args:
        vocab_size: number of token ids of the target, and of the source unless
            ``source_vocab_size`` is given.
        dim: width of the model.
        heads, layers, attention, ..., max_length: see :class:`tfzoo.models.options.StackOptions`.
        like: the name of an architecture (``tfzoo architectures``). Its options are used where none
            are given here: those of its layers, and for the class of its own model all of them.
        scale_embeddings: multiply embeddings by ``sqrt(dim)`` (section 3.4).
        tie: which embeddings are one matrix: ``all`` (source, target and output; Press and Wolf
            2017), ``target`` (target and output), ``embeddings`` (source and target; T5 v1.1) or
            ``none``.
        head_bias: add a trained bias to the logits (Marian).
        init_std: scale the initial weights of each embedding and linear layer to this root mean
            square, such as 0.02 (Devlin et al. 2019); None: keep the initialisation of each.
        embedding_std: standard deviation of the initial embeddings, whatever ``init_std`` is; None:
            ``1 / sqrt(dim)``, or ``init_std`` where given.
        source_vocab_size: number of token ids of the source; ``vocab_size`` by default.
        encoder, decoder: options of :class:`~tfzoo.models.options.StackOptions` for one side only,
            such as ``{norm: batch, layers: 3}``.
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
        vocab_size: int,
        dim: int = 512,
        heads: int = 8,
        layers: int = 6,
        *,
        like: str | None = None,
        scale_embeddings: bool = True,
        tie: Tie = "all",
        head_bias: bool = False,
        init_std: float | None = None,
        embedding_std: float | None = None,
        source_vocab_size: int | None = None,
        encoder: dict[str, Any] | None = None,
        decoder: dict[str, Any] | None = None,
        allow: list[str] | None = None,
        **stack: Any,
    ) -> None:
        super().__init__()
        check_range("source_vocab_size", source_vocab_size, ge=1, whole=True, optional=True)
        if tie not in get_args(Tie):
            raise BadOption(f"tie must be {type_name(Tie)}, not {tie!r}")
        joint = tie in ("all", "embeddings")
        if joint and source_vocab_size is not None:
            raise BadOption(
                f"tie: {tie} shares one matrix between source and target embeddings, but "
                "source_vocab_size is given. Use tie: target"
            )
        common = StackOptions(layers, heads, **stack)
        sides = common.updated(encoder, "encoder"), common.updated(decoder, "decoder")
        allow = allow or []
        depth = sides[1].layers
        with side("encoder", encoder):
            self.encoder = Stack(
                dim, sides[0], causal=False, cross=False, allow=allow, decoder_layers=depth
            )
        with side("decoder", decoder):
            self.decoder = Stack(dim, sides[1], causal=True, cross=True, allow=allow)
        self.max_positions = self.decoder.max_positions

        def embedding(size: int) -> Embedding:
            return Embedding(size, dim, scale=scale_embeddings, std=embedding_std)

        self.target_embedding = embedding(vocab_size)
        self.source_embedding = (
            self.target_embedding if joint else embedding(source_vocab_size or vocab_size)
        )
        tied = tie in ("all", "target")
        self.projection = None if tied else nn.Parameter(torch.empty(vocab_size, dim))
        self.output_bias = nn.Parameter(torch.empty(vocab_size)) if head_bias else None
        self.init_std = init_std
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """See :func:`~tfzoo.models.initialise.reset_output`."""
        reset_output(self)

    @property
    def output_weight(self) -> Tensor:
        """The weight of the output projection: ``(v d)``."""
        return self.target_embedding.weight if self.projection is None else self.projection

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        *,
        source_mask: Mask | None = None,
        target_mask: Mask | None = None,
    ) -> Tensor:
        """``(b k), (b q) -> (b q v)``.

        The masks say which tokens are real: :meth:`tfzoo.Mask.right` of lengths, or
        ``Mask(keys=...)``; None: all are.
        """
        return self.logits(
            self.hidden(source, target, source_mask=source_mask, target_mask=target_mask)
        )

    def hidden(
        self,
        source: Tensor,
        target: Tensor,
        *,
        source_mask: Mask | None = None,
        target_mask: Mask | None = None,
    ) -> Tensor:
        """The decoder's last hidden states: ``(b k), (b q) -> (b q d)``."""
        memory = self.encode(source, mask=source_mask)
        check_ids("target", target)
        hidden: Tensor = self.decoder(
            self.target_embedding(target), memory, mask=target_mask, memory_mask=source_mask
        )
        return hidden

    def logits(self, hidden: Tensor) -> Tensor:
        """The output projection: ``(* d) -> (* v)``."""
        return linear(hidden, self.output_weight, self.output_bias)

    def encode(self, source: Tensor, *, mask: Mask | None = None) -> Tensor:
        """The encoder's last hidden states: ``(b k) -> (b k d)``."""
        check_ids("source", source)
        return self.encoder(self.source_embedding(source), mask=mask)

    def init_cache(self, source: Tensor, *, mask: Mask | None = None) -> DecoderCache:
        """Encode the source ``(b k)``, and return a cache for :meth:`decode_step`."""
        return self.decoder.init_cache(self.encode(source, mask=mask), memory_mask=mask)

    def decode_step(self, tokens: Tensor, cache: DecoderCache) -> Tensor:
        """Append one token to each of ``r`` hypotheses, and return the logits of the next token:
        ``(r) -> (r v)``.
        """
        check_step(tokens)
        hidden = self.decoder(self.target_embedding(tokens[:, None]), cache=cache)
        return self.logits(hidden[:, 0])
