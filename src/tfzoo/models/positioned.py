"""What a stack and a standalone layer have in common: a positional encoding, a cache, and masks and
biases that are computed once in each forward pass.
"""

from collections.abc import Collection
from dataclasses import replace

import torch
from torch import Tensor, nn

from tfzoo.base import kernels
from tfzoo.base.functional import at_least_fp32
from tfzoo.base.registry import Entry, create
from tfzoo.contracts import Position
from tfzoo.errors import BadOption
from tfzoo.masks import Mask, Pairs, dense
from tfzoo.models.context import Context, DecoderCache
from tfzoo.models.inputs import check_cache, check_memory, check_tokens
from tfzoo.models.options import StackOptions
from tfzoo.models.rules import (
    Parts,
    check_clashes,
    embeds,
    has_auxiliary_loss,
    mixes_tokens,
    names_that_fit,
    norm_ignores_mask,
    reads_any_mask,
)
from tfzoo.models.transformer_layer import TransformerLayer


class Positioned(nn.Module):
    """A module with a positional encoding, which computes the :class:`Context` of its layers, and
    makes their cache.
    """

    dim: int
    causal: bool
    cross: bool
    """Whether there is cross-attention to a memory."""
    position: Position
    max_positions: int | None
    """The number of positions; None: any number."""
    window: int | None

    def add_position(
        self, dim: int, options: StackOptions, *, causal: bool, cross: bool, allow: Collection[str]
    ) -> None:
        """Check the components against the clash rules, and create the positional encoding."""
        self.dim, self.causal, self.cross, self.window = dim, causal, cross, options.window
        self.reads_valid, self.takes_any_mask = False, True
        self.leaky_norm: str | None = None
        self.check_layer(options.parts(causal), allow)
        self.position = create_position(dim, options, causal)
        traits = self.position.entry.traits
        self.needs_length = "needs_length" in traits
        self.max_positions = options.max_length if "bounded" in traits else None

    def zero_padding(self, x: Tensor, mask: Mask | None) -> Tensor:
        """Zeros at padding: ``(b n d) -> (b n d)``. Anything may stand there; a weight of 0 would
        not cancel NaN.
        """
        keys = None if mask is None else mask.keys
        return x if keys is None else x.masked_fill(~keys[..., None], 0.0)

    def check_layer(self, parts: Parts, allow: Collection[str]) -> None:
        """Check the components of a layer, and record how they use masks: whether one reads the
        padding mask, and whether ``mask.allowed`` has an effect on all of them.
        """
        check_clashes(parts, allow)
        self.reads_valid |= mixes_tokens(parts.norm) or has_auxiliary_loss(parts.feedforward)
        if "mixes_tokens:always" in parts.norm.traits and "leaky-norm" not in allow:
            self.leaky_norm = parts.norm.name
        self.takes_any_mask &= reads_any_mask(parts.mixer)

    def init_cache(
        self, memory: Tensor | None = None, *, memory_mask: Mask | None = None
    ) -> DecoderCache:
        """An empty cache, with the cross-attention keys and values of ``memory`` ``(b k d)``.

        Pass it to the forward pass together with the new tokens, one or several in each row; the
        call appends their keys and values. In beam search, ``x`` has ``beams * b`` rows; the beams
        of one row of the memory are consecutive. ``cache.reorder(rows)`` selects rows of ``x`` by
        index, ``cache.keep_batch(rows)`` rows of the memory. Parameters that FSDP2 shards must be
        gathered first (:func:`tfzoo.models.fsdp.unshard`).

        Raises:
            BadOption: the module is not causal, a shape does not fit, or cross-attention has no
                memory.
        """
        if not self.causal:
            raise BadOption("a cache needs causal=True: without it, earlier tokens see later ones")
        check_memory(self.dim, self.cross, memory, memory_mask)
        layers = [one for one in self.modules() if isinstance(one, TransformerLayer)]
        cache = DecoderCache(len(layers), memory_mask or Mask())
        if memory is not None:
            memory = self.zero_padding(memory, memory_mask)
            for layer, kept in zip(layers, cache.source, strict=True):
                layer.cross_attention.inner.keep_memory(memory, kept)  # type: ignore[union-attr, operator]  # a decoder with memory has it
        return cache

    def context(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        mask: Mask | None = None,
        memory_mask: Mask | None = None,
        positions: Tensor | None = None,
        cache: DecoderCache | None = None,
    ) -> Context:
        """Check the arguments of a forward pass, and return what is the same for all layers;
        :func:`layer_context` adds a layer's positional encoding and window. Errors are those of
        :meth:`tfzoo.Decoder.forward`.
        """
        check_tokens(x, self.dim, self.causal, mask, positions)
        if cache is None:
            check_memory(self.dim, self.cross, memory, memory_mask, x)
        else:
            check_cache(x, cache, memory, memory_mask)
            memory_mask = cache.memory_mask
        mask = mask or Mask()
        valid, allowed = mask.keys, mask.allowed
        if allowed is not None:
            self._check_any_mask()
        pos, k_pos = self._positions(x, mask, positions, cache)
        keys = valid
        if cache is not None:
            keys = cache.append_non_padding(valid, x.shape[0], x.shape[1])
        elif self.causal and mask.on_right:
            keys = None  # A causal mask already hides padding on the right from all tokens.
        start = 0 if cache is None else cache.length
        return Context(
            mask=Mask(self.causal, keys, start, allowed),
            pos=pos,
            k_pos=k_pos,
            consecutive=positions is None and (cache is None or cache.positions is None),
            valid=valid if self.reads_valid else None,
            memory=None if memory is None else self.zero_padding(memory, memory_mask),
            memory_mask=memory_mask,
            cache=cache,
        )

    def _check_any_mask(self) -> None:
        """Raise an error if a part reads other tokens than a mask says."""
        if self.leaky_norm is not None:
            raise norm_ignores_mask(self.leaky_norm)
        if not self.takes_any_mask:
            others = names_that_fit("mixer", reads_any_mask)
            raise BadOption(
                "mask.allowed hides tokens, but a mixer of this stack reads no such mask: use "
                f"{others}"
            )

    def _positions(
        self, x: Tensor, mask: Mask, given: Tensor | None, cache: DecoderCache | None
    ) -> tuple[Tensor, Tensor]:
        """The positions of the tokens of ``x`` ``(b|1 n)`` and of all keys ``(b|1 k)``: the given
        ones, or else they continue those in the cache. Padding is not counted.
        """
        n, valid, start = x.shape[1], mask.keys, 0 if cache is None else cache.length
        limit = self.max_positions
        if given is None and limit is not None and start + n > limit:
            name = self.position.entry.name
            raise BadOption(
                f"{start + n} tokens, but position {name!r} has {limit}: raise max_length"
            )
        earlier = None if cache is None else cache.positions
        shared = valid is None or (cache is None and mask.on_right)
        if given is None and earlier is None and shared:
            k_pos = torch.arange(start + n, device=x.device)[None]
            return k_pos[:, start:], k_pos
        if earlier is None:
            earlier = torch.arange(start, device=x.device)[None]
        pos = given
        if pos is None:
            ones = torch.ones(1, n, dtype=torch.long, device=x.device) if valid is None else valid
            pos = ones.cumsum(1) + (earlier[:, -1:] if start else -1)
        rows = earlier.shape[0] if pos.shape[0] == 1 else pos.shape[0]
        k_pos = torch.cat([earlier.expand(rows, -1), pos.expand(rows, -1)], 1)
        if cache is not None:
            cache.positions = k_pos
        if given is None and limit is not None:
            # Padding before the first token has position -1, for which a table has no entry.
            return pos.clamp(min=0), k_pos.clamp(min=0)
        return pos, k_pos


def create_position(dim: int, options: StackOptions, causal: bool) -> Position:
    """The positional encoding of a stack or of a layer."""
    position: Position = create(
        "position",
        options.position,
        dim=dim,
        heads=options.heads,
        head_dim=options.width_of_head(dim),
        max_length=options.max_length,
        causal=causal,
    )
    return position


def layer_context(
    context: Context, position: Position, window: int | None, layer: int = 0
) -> Context:
    """The context of the layers that have this positional encoding and window; ``layer`` is the
    index of the first of them.
    """
    if window is not None:
        context = apply_window(context, window, layer)
    # Kernels read a table of distances where they need it.
    table = (
        kernels.flex_attention_applies(context.pos)
        and context.consecutive
        and "bias_of_distance" in position.entry.traits
    )
    places = context.pos, context.k_pos
    return replace(
        context,
        bias=bias_of_distance(position, *places) if table else position.bias(*places),
        rotation=position.angles(context.pos),
    )


def apply_window(context: Context, window: int, layer: int) -> Context:
    """The context of layers with a window: the mask hides tokens outside the window, and covers
    those that are still in the cache of ``layer``.
    """
    mask, cache, k_pos = context.mask, context.cache, context.k_pos
    start, keys, allowed, kept = mask.start, mask.keys, mask.allowed, None
    if cache is not None:
        start = cache.target[layer].length
        k = start + context.pos.shape[1]
        k_pos = k_pos[:, -k:]
        keys = None if keys is None else keys[:, -k:]
        allowed = dense(allowed, context.pos.shape[1], context.k_pos.shape[1], k_pos.device)
        allowed = None if allowed is None else allowed[..., -k:]
        # Padding takes up cache entries, so the last `window` entries may hold fewer tokens of a
        # padded row: with padding, all are kept.
        kept = window - 1 if keys is None and cache.positions is None else None
    reach = window - 1 if mask.causal else window // 2
    # Short sequences need no mask. A graph that is compiled for all lengths always has one.
    if torch.compiler.is_compiling() or not context.consecutive or k_pos.shape[1] > reach + 1:
        near = within(context.pos, k_pos, reach, mask.causal)
        allowed = near if allowed is None else near & allowed
    return replace(context, mask=Mask(mask.causal, keys, start, allowed), k_pos=k_pos, kept=kept)


def within(pos: Tensor, k_pos: Tensor, reach: int, causal: bool) -> Pairs:
    """True where a key is at most ``reach`` positions away, or, where later keys are hidden anyway,
    behind: ``(b|1 q), (b|1 k)``.
    """
    rows = max(len(pos), len(k_pos))
    pos, k_pos = pos.expand(rows, -1), k_pos.expand(rows, -1)

    def near(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        distance = pos[b, i] - k_pos[b, j]
        return (distance if causal else distance.abs()) <= reach

    return Pairs(near, rows)


def bias_of_distance(position: Position, pos: Tensor, k_pos: Tensor) -> Pairs | None:
    """The bias of a position with the trait ``bias_of_distance``, read from a table of distances,
    ``(h 2k+1)``; positions are counted: ``(b|1 q), (b|1 k)``.
    """
    rows, most = max(len(pos), len(k_pos)), k_pos.shape[1]
    pos, k_pos = pos.expand(rows, -1), k_pos.expand(rows, -1)
    distances = torch.arange(-most, most + 1, device=pos.device)[None]
    table = position.bias(distances.new_zeros(1, 1), distances)
    if table is None:
        return None
    table = at_least_fp32(table[0, :, 0])  # a kernel adds up its gradients in its dtype

    def read(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return table[h, k_pos[b, j] - pos[b, i] + most]

    return Pairs(read, rows, len(table))


def check_no_embedding(position: Entry) -> None:
    """Check that the positional encoding of a layer acts on attention."""
    if embeds(position):
        raise BadOption(
            f"position {position.name!r} adds to the embeddings, before the first layer. "
            "Give it to a whole encoder or decoder, or apply tfzoo.create('position', "
            f"{position.name!r}, ...).embed to the layer's input. In a layer: "
            + names_that_fit("position", lambda one: not embeds(one))
        )
