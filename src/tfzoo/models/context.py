"""What all layers of a stack share in one forward pass."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from tfzoo.base.rotation import Rotation
from tfzoo.masks import Mask, Pairs
from tfzoo.models.cache import DecoderCache


@dataclass(frozen=True)
class Context:
    """Masks, biases and caches that are the same for all layers in one forward pass.

    Args:
        mask: the mask of self-attention.
        pos: ``(b|1 n)``, the positions of the tokens.
        k_pos: ``(b|1 k)``, the positions of the keys, cached tokens included.
        consecutive: the positions are not the caller's but counted, so that those of two tokens
            differ by at most the tokens' distance.
        valid: ``(b n)``, False at padding; None without padding, or if no part of a layer reads it.
        bias: ``(b|1 h q k)``, or a function of indices, added to the scores of self-attention.
        rotation: rotary positional encoding of queries and keys of self-attention, or None.
        prefix: tokens see later ones of a prefix, so that ``mask`` is not ``causal`` in a decoder.
        kept: the number of tokens that stay in the cache after this pass; None: all.
        memory: ``(b k d)``, the encoder's output; None if ``cache`` holds its keys and values.
        memory_mask: the padding mask of the encoder's output.
        cache: keys and values of earlier tokens and of the source; None in training.
        read: of a last layer, the tokens whose output is needed, by their index among all ``b n``:
            ``(b m)``, some of each text, or ``(1 m)``, any; None: all are.
    """

    mask: Mask
    pos: Tensor
    k_pos: Tensor
    consecutive: bool = False
    valid: Tensor | None = None
    bias: Tensor | Pairs | None = None
    rotation: Rotation | None = None
    prefix: bool = False
    kept: int | None = None
    memory: Tensor | None = None
    memory_mask: Mask | None = None
    cache: DecoderCache | None = None
    read: Tensor | None = None

    def select(self, x: Tensor) -> Tensor:
        """The tokens that are read: ``(b n d) -> (b|1 m d)``; all without ``read``."""
        if self.read is None:
            return x
        found = x.flatten(0, 1).index_select(0, self.read.flatten())
        return found.view(*self.read.shape, x.shape[-1])

    def non_padding(self) -> Tensor | None:
        """``(b n)``, False at padding; None if there is no padding, or if the causal mask already
        hides it from all other tokens.
        """
        keys = self.mask.keys
        return None if keys is None else keys[:, -self.pos.shape[1] :]
