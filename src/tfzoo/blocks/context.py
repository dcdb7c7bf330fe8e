"""What a stack computes once per forward pass for all of its layers."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from tfzoo.blocks.cache import DecoderCache
from tfzoo.masks import Mask
from tfzoo.rotation import Rotation


@dataclass(frozen=True)
class Context:
    """The tensors that all layers of one forward pass share.

    Args:
        mask: which query may look at which key, in self-attention.
        valid: ``(b n)``, True at real tokens; None when all are, or when the norm does not read it.
        bias: ``(b|1 h q k)``, added to the scores of self-attention.
        rotation: rotates queries and keys of self-attention.
        memory: ``(b k d)``, the encoder's output; None where ``cache`` holds its keys and values.
        memory_mask: which of its tokens are real.
        cache: keys and values of earlier tokens; None unless decoding.
    """

    mask: Mask
    valid: Tensor | None = None
    bias: Tensor | None = None
    rotation: Rotation | None = None
    memory: Tensor | None = None
    memory_mask: Mask | None = None
    cache: DecoderCache | None = None
