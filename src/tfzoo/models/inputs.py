"""Checks of the tensors that layers and stacks are called with. They read shapes, and no values."""

import torch
from torch import Tensor

from tfzoo.errors import BadOption
from tfzoo.masks import Mask, Pairs, check_type
from tfzoo.models.context import DecoderCache


def check_ids(name: str, ids: Tensor) -> None:
    """Check that these are token ids ``(b n)``."""
    if not isinstance(ids, Tensor):
        raise BadOption(
            f"{name} must be a tensor of token ids (b n), not a {type(ids).__name__}: "
            "torch.tensor([[5, 6, 7]]) is one row of three"
        )
    if ids.ndim != 2:
        raise BadOption(
            f"{name} must be token ids (b n), not {shape(ids)}: {name}[None] makes (n) one row"
        )
    if not whole(ids):
        raise BadOption(f"{name} must be token ids, whole numbers, not {ids.dtype}: {name}.long()")


def check_step(tokens: Tensor) -> None:
    """Check the tokens of a step of decoding, ``(b)``."""
    if tokens.ndim != 1:
        raise BadOption(f"a step takes one token of each row, (b), not {shape(tokens)}")


def check_tokens(
    x: Tensor, dim: int, causal: bool, mask: Mask | None, positions: Tensor | None
) -> None:
    """Check ``x`` ``(b n d)``, its mask, and its positions ``(b|1 n)``."""
    check_shape("x", x, dim)
    b, n = x.shape[:2]
    if mask is not None:
        check_mask("mask", mask, b, n, n)
        if mask.start is not None:
            raise BadOption("mask.start follows from the cache: leave it out")
        if mask.causal and not causal:
            raise BadOption("a causal mask, but this module is not causal: use tfzoo.Decoder")
        if mask.allowed is not None and causal and not mask.causal:
            raise BadOption(
                "mask.allowed without causal, but this module is causal and hides later tokens: "
                "pass Mask(causal=True, allowed=...) where both are meant, or build it with "
                "causal=False"
            )
    if positions is None:
        return
    rows, n_given = positions.shape if positions.ndim == 2 else (0, 0)
    if rows not in (1, b) or n_given != n or not whole(positions):
        raise BadOption(
            f"positions must be integers ({b} {n}) or (1 {n}) for this x, not {shape(positions)} "
            f"{positions.dtype}"
        )


def check_memory(
    dim: int, cross: bool, memory: Tensor | None, mask: Mask | None, x: Tensor | None = None
) -> None:
    """Check that a memory ``(b k d)`` is given if and only if there is cross-attention, and that it
    has as many rows as ``x``, if ``x`` is given.
    """
    if memory is None:
        if cross:
            raise BadOption(
                "cross-attention needs a memory: pass memory, or build the decoder with "
                "cross_attention=False"
            )
        if mask is not None:
            raise BadOption("memory_mask without memory")
        return
    if not cross:
        raise BadOption(
            "a memory, but there is no cross-attention: a mask is passed as mask=..., and a memory "
            "is read by tfzoo.Decoder with cross_attention=True"
        )
    check_shape("memory", memory, dim)
    if x is not None and memory.shape[0] != x.shape[0]:
        raise BadOption(f"x has {x.shape[0]} rows, and memory {memory.shape[0]}")
    if mask is not None:
        q = None if x is None else x.shape[1]
        check_mask("memory_mask", mask, memory.shape[0], q, memory.shape[1])


def check_cache(
    x: Tensor, cache: DecoderCache, memory: Tensor | None, memory_mask: Mask | None
) -> None:
    """Check that ``x`` has as many rows as the cached tokens, and a multiple of the rows of the
    cached memory; and that memory and its mask are not passed together with the cache.
    """
    if memory is not None or memory_mask is not None:
        raise BadOption("with a cache, pass memory and memory_mask to init_cache only")
    for kept in cache.target:
        if kept.rows not in (None, x.shape[0]):
            raise BadOption(f"x has {x.shape[0]} rows, and the cache {kept.rows}")
    for kept in cache.source[:1]:
        if kept.rows is not None and x.shape[0] % (kept.rows or x.shape[0] + 1):
            raise BadOption(
                f"x has {x.shape[0]} rows, which is no multiple of the {kept.rows} of the "
                "memory in the cache"
            )


def check_shape(name: str, x: Tensor, dim: int) -> None:
    """Check that ``x`` is ``(b n d)``."""
    if x.ndim != 3 or x.shape[-1] != dim:
        raise BadOption(f"{name} must be vectors (b n {dim}), not {shape(x)}")


def check_mask(name: str, mask: Mask, b: int, q: int | None, k: int) -> None:
    """Check that this is a ``Mask`` with ``keys`` ``(b k)`` and ``allowed`` ``(b|1 1|h q k)``.
    ``q`` is None when a cache is made, before there are queries.
    """
    check_type(name, mask)
    keys, allowed = mask.keys, mask.allowed
    if keys is not None and (keys.shape[0] != b or keys.shape[1] != k):
        raise BadOption(f"{name}.keys must be ({b} {k}), one for each token, not {shape(keys)}")
    if allowed is None:
        return
    if q is None:
        raise BadOption(f"{name}.allowed needs queries, and init_cache has none: use {name}.keys")
    if isinstance(allowed, Pairs):
        if allowed.rows not in (1, b):
            raise BadOption(f"{name}.allowed must be of 1 row or {b}, not {allowed.rows}")
        return
    if allowed.shape[0] not in (1, b) or allowed.shape[2] != q:
        raise BadOption(
            f"{name}.allowed must be (b|1 1|h {q} k) for {b} rows, not {shape(allowed)}"
        )


def whole(x: Tensor) -> bool:
    """Whether a tensor holds integers."""
    return not x.is_floating_point() and x.dtype != torch.bool


def shape(x: Tensor) -> str:
    """The shape in the alphabet of docstrings: ``(2 7 16)``."""
    return f"({' '.join(map(str, x.shape))})"
