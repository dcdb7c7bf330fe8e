"""The encoder-decoder Transformer (Vaswani et al. 2017, section 3), of any components."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

from tfzoo.blocks.cache import DecoderCache
from tfzoo.blocks.options import Residual, StackOptions
from tfzoo.blocks.stack import Padding, Stack
from tfzoo.errors import BadOption
from tfzoo.masks import Mask
from tfzoo.models.embedding import Embedding
from tfzoo.models.initialise import rescale
from tfzoo.registry import AttentionSpec, FeedForwardSpec, NormSpec, PositionSpec
from tfzoo.special_ids import PAD


class Transformer(nn.Module):
    """An encoder, a decoder and the embeddings around them.

    >>> model = Transformer(vocab_size=8000, dim=64, heads=4, layers=2, norm="rms", position="rotary")
    >>> source, target = torch.randint(4, 8000, (2, 7)), torch.randint(4, 8000, (2, 5))
    >>> model(source, target).shape
    torch.Size([2, 5, 8000])

    Args:
        vocab_size: of the target, and of the source unless ``source_vocab_size`` is given.
        dim: width of the model.
        heads, layers, attention, ..., max_length: see :class:`tfzoo.blocks.options.StackOptions`.
        scale_embeddings: multiply embeddings by ``sqrt(dim)`` (section 3.4).
        tie: which embeddings are one matrix: ``all`` (source, target and output; Press and Wolf
            2017), ``target`` (target and output) or ``none``.
        init_std: start embeddings and linear maps with entries of this root mean square, as BERT
            and its kin do with 0.02 (Devlin et al. 2019); None: each as its paper has it.
        encoder, decoder: options of :class:`~tfzoo.blocks.options.StackOptions` in which one side
            differs, ``{norm: batch, layers: 3}``.
        allow: names of clashes to run with all the same.

    Raises:
        BadOption, UnknownName: an option that does not exist or fits no model.
        Clash: components that cannot work together.
    """

    def __init__(
        self,
        vocab_size: int,
        dim: int = 512,
        heads: int = 8,
        layers: int = 6,
        *,
        attention: AttentionSpec = "scaled_dot_product",
        norm: NormSpec = "layer",
        position: PositionSpec = "sinusoidal",
        feedforward: FeedForwardSpec = "relu",
        head_dim: int | None = None,
        value_head_dim: int | None = None,
        kv_heads: int | None = None,
        share_query_key: bool = False,
        temperature: float = 1.0,
        dropout: float = 0.1,
        attention_dropout: float = 0.0,
        feedforward_dropout: float = 0.0,
        residual: Residual = "pre",
        max_length: int = 1024,
        scale_embeddings: bool = True,
        tie: Literal["all", "target", "none"] = "all",
        init_std: float | None = None,
        source_vocab_size: int | None = None,
        encoder: dict[str, Any] | None = None,
        decoder: dict[str, Any] | None = None,
        allow: list[str] | None = None,
    ) -> None:
        given = {key: value for key, value in locals().items() if key not in ("self", "__class__")}
        super().__init__()
        self.config: dict[str, Any] = given
        if dim < 1 or vocab_size < 1:
            raise BadOption(f"dim={dim} and vocab_size={vocab_size} must be at least 1")
        if init_std is not None and not init_std > 0:
            raise BadOption(f"init_std={init_std} must be over 0")
        if tie == "all" and source_vocab_size is not None:
            raise BadOption(
                "tie: all makes one matrix of source and target embeddings, but their vocabularies differ. Use tie: target"
            )
        common = StackOptions().but(
            {key: given[key] for key in given.keys() & StackOptions.__dataclass_fields__.keys()}
        )
        sides = {
            "encoder": self._side(common, "encoder", encoder),
            "decoder": self._side(common, "decoder", decoder),
        }
        self.encoder = Stack(dim, sides["encoder"], causal=False, allow=allow or ())
        self.decoder = Stack(dim, sides["decoder"], causal=True, cross=True, allow=allow or ())
        self.target_embedding = Embedding(vocab_size, dim, scale=scale_embeddings)
        shared = self.target_embedding
        self.source_embedding = (
            shared
            if tie == "all"
            else Embedding(source_vocab_size or vocab_size, dim, scale=scale_embeddings)
        )
        self.projection = None if tie != "none" else nn.Parameter(torch.empty(vocab_size, dim))
        self.init_std = init_std
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """The untied output projection starts as an embedding does: ``N(0, 1/dim)``, or of
        ``init_std``.
        """
        if self.projection is not None:
            nn.init.normal_(self.projection, std=self.init_std or self.projection.shape[1] ** -0.5)
        if self.init_std is not None:
            rescale(self, self.init_std)

    @property
    def pad(self) -> int:
        """The id of padding."""
        return PAD

    @property
    def max_positions(self) -> int | None:
        """The most target tokens that the decoder's positions allow, None when any number."""
        return self.decoder.max_positions

    @property
    def output_weight(self) -> Tensor:
        """What turns hidden states into logits: ``(v d)``."""
        return self.target_embedding.weight if self.projection is None else self.projection

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        *,
        source_padding: Padding = "right",
        target_padding: Padding = "right",
    ) -> Tensor:
        """``(b k), (b q) -> (b q v)``; ids equal to ``pad`` are padding.

        ``source_padding`` and ``target_padding`` say on which side padding stands, if there can be
        any.
        """
        return self.logits(
            self.hidden(
                source, target, source_padding=source_padding, target_padding=target_padding
            )
        )

    def hidden(
        self,
        source: Tensor,
        target: Tensor,
        *,
        source_padding: Padding = "right",
        target_padding: Padding = "right",
    ) -> Tensor:
        """The decoder's last hidden states: ``(b k), (b q) -> (b q d)``."""
        memory = self.encode(source, padding=source_padding)
        memory_mask = Mask(keys=self.valid(source, source_padding))
        x = self.target_embedding(target)
        return self.decoder(
            x,
            self.valid(target, target_padding),
            target_padding,
            memory=memory,
            memory_mask=memory_mask,
        )  # type: ignore[no-any-return]

    def logits(self, hidden: Tensor) -> Tensor:
        """``(* d) -> (* v)``"""
        return nn.functional.linear(hidden, self.output_weight)

    def encode(self, source: Tensor, *, padding: Padding = "right") -> Tensor:
        """``(b k) -> (b k d)``"""
        return self.encoder(self.source_embedding(source), self.valid(source, padding), padding)  # type: ignore[no-any-return]

    def valid(self, ids: Tensor, padding: Padding) -> Tensor | None:
        """True at real tokens, None where the batch is known to hold no padding."""
        return None if padding == "none" else ids != self.pad

    def init_cache(self, source: Tensor, *, padding: Padding = "right") -> DecoderCache:
        """Encode the source; the cache to decode with: ``(b k)``."""
        cache = DecoderCache(len(self.decoder.layers), Mask(keys=self.valid(source, padding)))
        memory = self.encode(source, padding=padding)
        for layer, kept in zip(self.decoder.layers, cache.source, strict=True):
            kept.append(*layer.cross_attention.inner.memory(memory))  # type: ignore[union-attr, operator]  # a decoder's layers have it
        return cache

    def decode_step(self, tokens: Tensor, cache: DecoderCache) -> Tensor:
        """The next token's logits after one more token of each hypothesis: ``(r) -> (r v)``."""
        x = self.decoder(
            self.target_embedding(tokens[:, None]),
            cache=cache,
            padding="none",
            memory_mask=cache.memory_mask,
        )
        return self.logits(x[:, 0])

    def _side(
        self, common: StackOptions, side: str, changes: Mapping[str, Any] | None
    ) -> StackOptions:
        try:
            return common.but(changes)
        except BadOption as error:
            raise BadOption(f"{side}: {error}") from None
