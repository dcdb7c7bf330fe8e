"""A small model under test: token ids in, hidden states out, whichever side of a model it is."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tfzoo.blocks.cache import DecoderCache
from tfzoo.blocks.stack import Padding, Stack
from tfzoo.models.transformer import Transformer
from tfzoo.testing.samples import SIZES

VOCABULARY = 12
TEXT = torch.tensor([[4, 5, 6, 7, 8, 9], [7, 4, 9, 5, 0, 0], [6, 8, 0, 0, 0, 0]])
"""Three texts, padded on the right with zeros; no two neighbours are alike."""
SOURCE = torch.tensor([[9, 4, 8, 5, 7], [5, 6, 4, 0, 0], [8, 9, 0, 0, 0]])


def left(ids: Tensor) -> Tensor:
    """The same texts, padded on the left."""
    return torch.stack([row.roll(int((row == 0).sum())) for row in ids])


class Subject:
    """An encoder's or decoder's stack with a random embedding before it, or a translator."""

    def __init__(self, module: Stack | Transformer) -> None:
        self.module = module
        self.embedding = nn.Parameter(torch.randn(VOCABULARY, SIZES["dim"]), requires_grad=False)

    @property
    def stacks(self) -> list[Stack]:
        return [self.module] if isinstance(self.module, Stack) else [self.module.encoder, self.module.decoder]

    @property
    def causal(self) -> bool:
        return self.stacks[-1].causal

    def __call__(self, ids: Tensor, padding: Padding = "right", source: Tensor = SOURCE, source_padding: Padding = "right") -> Tensor:
        """Hidden states of each token: ``(b n) -> (b n d)``."""
        if isinstance(self.module, Stack):
            return self.module(self.embedding[ids], ids != 0, padding)  # type: ignore[no-any-return]
        return self.module.hidden(source, ids, source_padding=source_padding, target_padding=padding)

    def begin(self, source: Tensor = SOURCE, padding: Padding = "right") -> DecoderCache:
        """A cache to decode with."""
        if isinstance(self.module, Stack):
            return DecoderCache(len(self.module.layers))
        return self.module.begin(source, padding=padding)

    def step(self, ids: Tensor, cache: DecoderCache) -> Tensor:
        """Hidden states of the next tokens: ``(b n) -> (b n d)``."""
        if isinstance(self.module, Stack):
            return self.module(self.embedding[ids], padding="none", cache=cache)  # type: ignore[no-any-return]
        x = self.module.target_embedding(ids)
        return self.module.decoder(x, cache=cache, padding="none", memory_mask=cache.memory_mask)  # type: ignore[no-any-return]
