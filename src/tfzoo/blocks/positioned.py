"""The positional encoding, masks and biases of a stack or of a standalone layer, computed once in
each forward pass.
"""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor, nn

from tfzoo.blocks.cache import DecoderCache
from tfzoo.blocks.clashes import check_clashes, mixes_tokens, norm_ignores_mask
from tfzoo.blocks.context import Context, Padding
from tfzoo.blocks.options import StackOptions
from tfzoo.contracts import Position
from tfzoo.errors import BadOption
from tfzoo.masks import Mask
from tfzoo.registry import create, registry


class Positioned(nn.Module):
    """A module with a positional encoding, which computes the :class:`Context` of its layers."""

    dim: int
    causal: bool
    position: Position
    max_positions: int | None
    """The number of positions; None: any number."""

    def add_position(
        self, dim: int, options: StackOptions, *, causal: bool, allow: Collection[str]
    ) -> None:
        """Check the components against the clash rules, and create the positional encoding.

        Raises:
            Clash: components that cannot work together.
            BadOption, UnknownName: an option that does not exist or has a wrong value.
        """
        check_clashes(options, causal, allow)
        self.dim, self.causal = dim, causal
        self.position = create(
            "position",
            options.position,
            dim=dim,
            heads=options.heads,
            head_dim=options.width_of_head(dim),
            max_length=options.max_length,
            causal=causal,
        )
        traits = self.position.entry.traits
        self.needs_length = "needs_length" in traits
        self.max_positions = options.max_length if "bounded" in traits else None
        norm = registry("norm").options(options.norm)[0]
        self.norm_mixes_tokens = mixes_tokens(norm)
        leaks = "mixes_tokens:always" in norm.traits and "leaky-norm" not in allow
        self.leaky_norm = norm.name if leaks else None

    def context(
        self,
        x: Tensor,
        mask: Mask | None,
        positions: Tensor | None,
        padding: Padding | None,
        *,
        memory: Tensor | None = None,
        memory_mask: Mask | None = None,
        cache: DecoderCache | None = None,
    ) -> tuple[Context, Tensor]:
        """The context of the layers, and the positions ``(b|1 n)`` of the tokens of ``x``.

        Raises:
            BadOption: a token has no position in a bounded positional encoding.
            Clash: ``mask.allowed`` hides tokens that the norm reads.
        """
        if self.leaky_norm is not None and mask is not None and mask.allowed is not None:
            raise norm_ignores_mask(self.leaky_norm)
        valid = None if mask is None else mask.keys
        pos, k_pos = self._positions(x, valid, positions, padding, cache)
        start, keys = 0, valid
        if cache is not None:
            start = cache.length
            keys = cache.append_non_padding(valid, x.shape[0], x.shape[1])
        elif self.causal and padding == "right":
            keys = None  # A causal mask already hides padding on the right from all tokens.
        context = Context(
            mask=Mask(self.causal, keys, start, None if mask is None else mask.allowed),
            valid=valid if self.norm_mixes_tokens else None,
            bias=self.position.bias(pos, k_pos),
            rotation=self.position.angles(pos),
            memory=memory,
            memory_mask=memory_mask,
            cache=cache,
        )
        return context, pos

    def _positions(
        self,
        x: Tensor,
        valid: Tensor | None,
        given: Tensor | None,
        padding: Padding | None,
        cache: DecoderCache | None,
    ) -> tuple[Tensor, Tensor]:
        """The positions of the tokens of ``x`` ``(b|1 n)`` and of all keys ``(b|1 k)``: those
        given, or the next after the cached ones. Padding is not counted.
        """
        n, start = x.shape[1], 0 if cache is None else cache.length
        self._check_bounds(start + n, given)
        earlier = None if cache is None else cache.positions
        shared = valid is None or (cache is None and padding == "right")
        if given is None and earlier is None and shared:
            k_pos = torch.arange(start + n, device=x.device)[None]
            return k_pos[:, start:], k_pos
        if earlier is None:
            earlier = torch.arange(start, device=x.device)[None]
        pos = given
        if pos is None:
            ones = torch.ones(1, n, dtype=torch.long, device=x.device) if valid is None else valid
            pos = ones.cumsum(1) + (earlier[:, -1:] if start else -1)
        rows = max(earlier.shape[0], pos.shape[0])
        k_pos = torch.cat([earlier.expand(rows, -1), pos.expand(rows, -1)], 1)
        if cache is not None:
            cache.positions = k_pos
        if given is None and self.max_positions is not None:
            # Padding before the first token has position -1, for which a table has no entry.
            return pos.clamp(min=0), k_pos.clamp(min=0)
        return pos, k_pos

    def _check_bounds(self, n: int, given: Tensor | None) -> None:
        """Check that a bounded positional encoding has an entry for ``n`` tokens, or for the
        ``given`` positions. Positions on a GPU are not checked: reading them would make the host
        wait, and the lookup of a position outside the table fails there by itself.

        Raises:
            BadOption: a token has no position.
        """
        limit = self.max_positions
        if limit is None:
            return
        if given is None and n > limit:
            raise BadOption(
                f"{n} tokens, but position {self.position.entry.name!r} has {limit}: raise "
                "max_length"
            )
        if given is None or given.device.type != "cpu" or torch.compiler.is_compiling():
            return
        if not 0 <= int(given.min()) <= int(given.max()) < limit:
            raise BadOption(
                f"positions from {int(given.min())} to {int(given.max())}, but position "
                f"{self.position.entry.name!r} has 0 to {limit - 1}: raise max_length"
            )
