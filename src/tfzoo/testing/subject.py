"""A small model under test: token ids in, hidden states or logits out, whichever model or side of
one it is.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Literal

import torch
from torch import Tensor

from tfzoo.base.registry import Entry, registry
from tfzoo.contracts import Component, Position
from tfzoo.masks import Mask
from tfzoo.models.classifier import TransformerClassifier
from tfzoo.models.context import DecoderCache
from tfzoo.models.embedding import Embedding
from tfzoo.models.encoder_decoder import Decoder, Encoder
from tfzoo.models.positioned import Positioned
from tfzoo.models.stack import Stack
from tfzoo.models.transformer import Transformer
from tfzoo.testing.samples import SIZES

VOCABULARY = 12
TEXT = torch.tensor([[4, 5, 6, 7, 8, 9], [7, 4, 9, 5, 0, 0], [6, 8, 0, 0, 0, 0]])
"""Three texts, padded on the right with zeros."""
SOURCE = torch.tensor([[9, 4, 8, 5, 7], [5, 6, 4, 0, 0], [8, 9, 0, 0, 0]])
"""What a translator's three texts are translations of."""
FULL = torch.tensor([[4, 5, 6, 7, 8, 9], [7, 4, 9, 5, 6, 4], [6, 8, 5, 9, 4, 7]])
"""Three texts without padding."""
Padding = Literal["none", "right", "left"]


def left(ids: Tensor) -> Tensor:
    """The same texts, padded on the left."""
    return torch.stack([row.roll(int((row == 0).sum())) for row in ids])


def mask_of(ids: Tensor, padding: Padding) -> Mask:
    """Which tokens of these texts are real; zeros are padding, on this side."""
    if padding == "none":
        return Mask()
    keys = ids != 0
    return Mask(keys=keys) if padding == "left" else Mask.right(keys.sum(1), ids.shape[1])


class Subject:
    """An encoder's or decoder's stack with a random embedding before it, a translator, or a
    classifier.
    """

    def __init__(self, module: Encoder | Decoder | Transformer | TransformerClassifier) -> None:
        self.module = module
        self.embedding = torch.randn(VOCABULARY, SIZES["dim"])

    @property
    def stacks(self) -> list[Stack]:
        """Those of the model, the one that gives the output last."""
        return [one for one in self.module.modules() if isinstance(one, Stack)]

    @property
    def causal(self) -> bool:
        return self.stacks[-1].causal

    @property
    def position(self) -> Entry:
        return self.stacks[-1].position.entry

    def parts(self, kind: str) -> list[Component]:
        """The components of a kind in the model."""
        return [
            part
            for part in self.module.modules()
            if isinstance(part, Component) and part.entry.kind == kind
        ]

    def traits(self, kind: str) -> set[str]:
        """The traits of those."""
        return {trait for part in self.parts(kind) for trait in part.entry.traits}

    @property
    def embeddings(self) -> list[Tensor]:
        """The tables that ids are looked up in."""
        tables = [one.weight for one in self.module.modules() if isinstance(one, Embedding)]
        return [*tables] or [self.embedding]

    def __call__(
        self,
        ids: Tensor,
        padding: Padding = "right",
        source: Tensor = SOURCE,
        source_padding: Padding = "right",
    ) -> Tensor:
        """Hidden states of each token, ``(b n) -> (b n d)``, or a classifier's logits, ``(b n) ->
        (b classes)``.
        """
        mask = mask_of(ids, padding)
        if isinstance(self.module, Stack):
            return self.module(self.embedding[ids], mask=mask)
        if isinstance(self.module, TransformerClassifier):
            return self.module(ids, mask=mask)  # type: ignore[no-any-return]
        return self.module.hidden(
            source, ids, source_mask=mask_of(source, source_padding), target_mask=mask
        )

    def init_cache(self, source: Tensor = SOURCE, padding: Padding = "right") -> DecoderCache:
        """A cache to decode with."""
        if isinstance(self.module, Transformer):
            return self.module.init_cache(source, mask=mask_of(source, padding))
        return self.stacks[0].init_cache()

    def decode_step(self, ids: Tensor, cache: DecoderCache) -> Tensor:
        """Hidden states of the next tokens: ``(b n) -> (b n d)``."""
        if not isinstance(self.module, Transformer):
            return self.stacks[0](self.embedding[ids], cache=cache)
        return self.module.decoder(self.module.target_embedding(ids), cache=cache)

    @contextmanager
    def other_padding(self) -> Iterator[None]:
        """Padding is something else, and large, wherever layers read it: earlier layers may leave
        there what they like.
        """
        row = 20 * torch.randn(SIZES["dim"])
        with self._with("zero_padding", lambda own: lambda x, mask: x), self.padding_of(row):
            yield

    @contextmanager
    def padding_of(self, row: Tensor) -> Iterator[None]:
        """Padding is embedded as this vector."""
        before = [table[0].clone() for table in self.embeddings]
        with torch.no_grad():
            for table in self.embeddings:
                table[0] = row
        try:
            yield
        finally:
            with torch.no_grad():
                for table, row in zip(self.embeddings, before, strict=True):
                    table[0] = row

    @contextmanager
    def training(self) -> Iterator[None]:
        """In training mode; running statistics stand as they were afterwards."""
        before = {name: buffer.clone() for name, buffer in self.module.named_buffers()}
        self.module.train()
        try:
            yield
        finally:
            self.module.eval()
            with torch.no_grad():
                for name, buffer in self.module.named_buffers():
                    buffer.copy_(before[name])

    def shallow(self) -> AbstractContextManager[None]:
        """One layer deep: two causal layers know the order of tokens even without positions."""
        return self._with("layers", lambda layers: layers[:1])

    def shifted(self, by: int) -> AbstractContextManager[None]:
        """All tokens stand ``by`` places later."""
        return self._with(
            "_positions", lambda own: lambda *given: [one + by for one in own(*given)]
        )

    @contextmanager
    def _with(self, name: str, change: Callable[[Any], Any]) -> Iterator[None]:
        """Another value of an attribute of each stack."""
        before = [getattr(stack, name) for stack in self.stacks]
        for stack, own in zip(self.stacks, before, strict=True):
            setattr(stack, name, change(own))
        try:
            yield
        finally:
            for stack, own in zip(self.stacks, before, strict=True):
                setattr(stack, name, own)


def pass_padding(module: Positioned) -> None:
    """Make a stack or a layer take what stands at padding as it is."""
    module.zero_padding = lambda x, mask: x  # type: ignore[method-assign]


def hooks(position: str) -> set[str]:
    """The hooks that a position overrides, which is what it is: ``{"angles"}``."""
    cls = registry("position").entry(position).cls
    return {
        hook
        for hook in ("embed", "angles", "bias")
        if getattr(cls, hook) is not getattr(Position, hook)
    }
