"""What all layers of a stack share in one forward pass, and the cache of a decoder."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from tfzoo.base.rotation import Rotation
from tfzoo.masks import Mask, Pairs


@dataclass
class LayerCache:
    """The tensors that one layer caches, by name, each with ``r`` rows, one per hypothesis. A mixer
    chooses the names: attention caches the keys ``k`` ``(r h|kv_heads t *)`` and values ``v``
    ``(r kv_heads t e)`` of ``t`` tokens, a recurrent mixer its state.
    """

    tensors: dict[str, Tensor] = field(default_factory=dict)

    @property
    def rows(self) -> int | None:
        """The number of rows; None while the cache is empty."""
        return next((one.shape[0] for one in self.tensors.values()), None)

    @property
    def length(self) -> int:
        """The number of tokens whose keys are cached."""
        return self.tensors["k"].shape[-2] if "k" in self.tensors else 0

    def append(self, *, keep: int | None = None, **new: Tensor) -> tuple[Tensor, ...]:
        """Append tensors of new tokens ``(r ... n *)`` to those of earlier ones, and return all.
        With ``keep``, only the last ``keep`` of all these tokens stay in the cache.
        """
        joined = []
        for name, one in new.items():
            one = torch.cat([self.tensors[name], one], -2) if name in self.tensors else one
            first = 0 if keep is None else max(0, one.shape[-2] - keep)
            self.tensors[name] = one[..., first:, :]
            joined.append(one)
        return tuple(joined)

    def reorder(self, rows: Tensor) -> None:
        """Select rows by index; an index may occur several times."""
        for name, one in self.tensors.items():
            self.tensors[name] = one.index_select(0, rows)


@dataclass
class DecoderCache:
    """The cache of a decoder: for each layer, what its mixer caches of the target (``target``), and
    the cross-attention keys and values of the source (``source``).

    ``target`` has one row per hypothesis. ``source`` and ``memory_mask`` have one row per sentence,
    since the hypotheses of a sentence share its keys and values. Each sentence has the same number
    of hypotheses, in consecutive rows.

    ``length`` is the number ``t`` of target tokens so far. ``positions`` ``(r|1 t)`` holds their
    positions; None: 0, 1, ..., t - 1 in each row. ``non_padding`` ``(r t)`` is False at padding;
    None: there is no padding.
    """

    layers: int
    memory_mask: Mask = field(default_factory=Mask)
    length: int = 0
    positions: Tensor | None = None
    non_padding: Tensor | None = None
    target: list[LayerCache] = field(init=False)
    source: list[LayerCache] = field(init=False)

    def __post_init__(self) -> None:
        self.target = [LayerCache() for _ in range(self.layers)]
        self.source = [LayerCache() for _ in range(self.layers)]

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
