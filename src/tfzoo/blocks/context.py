"""What a stack computes once and all its layers share."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from tfzoo.blocks.cache import DecoderCache
from tfzoo.masks import Mask
from tfzoo.rotation import Rotation


@dataclass(frozen=True)
class Context:
    """One forward pass of a stack: who may look at whom, which tokens are real, how positions act,
    what was seen before.

    ``valid`` is ``(b n)``, None when all tokens are real; ``bias`` is ``(b|1 h q k)``; ``memory``
    is ``(b k d)``.
    """

    mask: Mask
    valid: Tensor | None = None
    bias: Tensor | None = None
    rotation: Rotation | None = None
    memory: Tensor | None = None
    memory_mask: Mask | None = None
    cache: DecoderCache | None = None
