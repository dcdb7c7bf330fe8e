"""What a decoder keeps between steps, so that no key or value is computed twice."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from tfzoo.masks import Mask


@dataclass
class KeyValueCache:
    """The keys and values that one attention layer has seen: ``(r h t *)``, ``(r h t e)``; None
    before the first.
    """

    k: Tensor | None = None
    v: Tensor | None = None

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Add those of the newest tokens; returns all."""
        self.k = k if self.k is None else torch.cat([self.k, k], dim=2)
        self.v = v if self.v is None else torch.cat([self.v, v], dim=2)
        return self.k, self.v

    def reorder(self, rows: Tensor) -> None:
        """Keep these rows, in this order."""
        if self.k is not None and self.v is not None:
            self.k, self.v = self.k.index_select(0, rows), self.v.index_select(0, rows)


@dataclass
class DecoderCache:
    """The cache of a stack: one :class:`KeyValueCache` a layer for the target, one for the source, and
    how far decoding has come.

    Rows of the target are hypotheses; rows of the source are sentences. A sentence's hypotheses
    stand together, equally many for
    each, and share its keys and values: a beam costs no copy of the source.
    """

    layers: int
    memory_mask: Mask = field(default_factory=Mask)
    length: int = 0
    target: list[KeyValueCache] = field(init=False)
    source: list[KeyValueCache] = field(init=False)

    def __post_init__(self) -> None:
        self.target = [KeyValueCache() for _ in range(self.layers)]
        self.source = [KeyValueCache() for _ in range(self.layers)]

    def reorder(self, rows: Tensor) -> None:
        """Keep these hypotheses, in this order (may repeat)."""
        for layer in self.target:
            layer.reorder(rows)

    def keep_batch(self, sentences: Tensor) -> None:
        """Keep these sentences of the source; :meth:`reorder` says which of their hypotheses."""
        for layer in self.source:
            layer.reorder(sentences)
        keys = self.memory_mask.keys
        self.memory_mask = Mask(keys=None if keys is None else keys[sentences])
