"""The key-value cache of a decoder."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from tfzoo.masks import Mask


@dataclass
class KeyValueCache:
    """Keys ``(r h|kv_heads t *)`` and values ``(r kv_heads t e)`` of one attention, for ``r`` rows
    and the last ``t`` tokens that it may look at; None before the first token. Keys are from
    :meth:`tfzoo.blocks.multihead.SelfOrCrossAttention.prepare_keys`.
    """

    k: Tensor | None = None
    v: Tensor | None = None

    @property
    def length(self) -> int:
        """The number of tokens that are kept."""
        return 0 if self.k is None else self.k.shape[2]

    def append(self, k: Tensor, v: Tensor, keep: int | None = None) -> tuple[Tensor, Tensor]:
        """Append the keys and values of new tokens, and return them with those of earlier ones.
        ``keep``: of all these, keep the last ``keep`` only.
        """
        k = k if self.k is None else torch.cat([self.k, k], dim=2)
        v = v if self.v is None else torch.cat([self.v, v], dim=2)
        first = 0 if keep is None else max(0, k.shape[2] - keep)
        self.k, self.v = k[:, :, first:], v[:, :, first:]
        return k, v

    def reorder(self, rows: Tensor) -> None:
        """Select rows by index; an index may occur several times."""
        if self.k is not None and self.v is not None:
            self.k, self.v = self.k.index_select(0, rows), self.v.index_select(0, rows)


@dataclass
class DecoderCache:
    """The cache of a decoder: for each layer, keys and values of the target and of the source.

    ``target`` has one row per hypothesis. ``source`` and ``memory_mask`` have one row per sentence,
    since the hypotheses of a sentence share its keys and values. Each sentence has the same number
    of hypotheses, in consecutive rows.

    ``length`` is the number of target tokens seen so far, ``t``. ``positions`` ``(r|1 t)`` are
    theirs; None: 0, 1, ..., t - 1 in each row. ``non_padding`` ``(r t)`` is False where they are
    padding; None: none are.
    """

    layers: int
    memory_mask: Mask = field(default_factory=Mask)
    length: int = 0
    positions: Tensor | None = None
    non_padding: Tensor | None = None
    target: list[KeyValueCache] = field(init=False)
    source: list[KeyValueCache] = field(init=False)

    def __post_init__(self) -> None:
        self.target = [KeyValueCache() for _ in range(self.layers)]
        self.source = [KeyValueCache() for _ in range(self.layers)]

    def append_non_padding(self, new: Tensor | None, rows: int, n: int) -> Tensor | None:
        """Append the padding mask ``(r n)`` of ``n`` new tokens, and return that of all tokens."""
        known = self.non_padding if new is None else new
        if known is None:
            return None
        earlier = (
            known.new_ones(rows, self.length) if self.non_padding is None else self.non_padding
        )
        later = known.new_ones(rows, n) if new is None else new
        self.non_padding = torch.cat([earlier, later], 1)
        return self.non_padding

    def reorder(self, rows: Tensor) -> None:
        """Select hypotheses by index; an index may occur several times."""
        for layer in self.target:
            layer.reorder(rows)
        if self.non_padding is not None:
            self.non_padding = self.non_padding.index_select(0, rows)
        if self.positions is not None and self.positions.shape[0] > 1:
            self.positions = self.positions.index_select(0, rows)

    def keep_batch(self, sentences: Tensor) -> None:
        """Select sentences by index; :meth:`reorder` selects their hypotheses."""
        for layer in self.source:
            layer.reorder(sentences)
        self.memory_mask = self.memory_mask.select(sentences)
