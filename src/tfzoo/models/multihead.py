"""Multi-head attention around any attention component (Vaswani et al. 2017, section 3.2.2)."""

from collections.abc import Mapping, Set
from typing import Any, ClassVar

import torch
from einops import rearrange, repeat
from torch import Tensor, nn

from tfzoo.base.linear import Linear, projections
from tfzoo.base.registry import create
from tfzoo.contracts import Attention, Norm, Weighting, value_matrices
from tfzoo.masks import Mask, Pairs
from tfzoo.models.context import Context, LayerCache
from tfzoo.models.options import ATTENTION_OPTIONS, StackOptions


def repeat_kv(x: Tensor, heads: int) -> Tensor:
    """Repeat each head of keys or values for all query heads of its group: ``(b kv_heads n c) ->
    (b h n c)``.
    """
    return x if x.shape[1] == heads else repeat(x, "b h n c -> b (h g) n c", g=heads // x.shape[1])


class SelfOrCrossAttention(nn.Module):
    """``concat(head_1, ..., head_h) W_o`` with ``head_i = attention(x W_q_i, y W_k_i, y W_v_i)``.
    ``y`` is ``x`` in the mixer ``multihead``, the encoder's output in :class:`CrossAttention`.

    ``options`` may add a norm of queries and keys, a gate, and a scale of each head's output; see
    :class:`~tfzoo.models.options.StackOptions`.
    """

    reads: ClassVar[Set[str]] = ATTENTION_OPTIONS

    def __init__(self, dim: int, options: StackOptions, layer: int = 0, layers: int = 1) -> None:
        super().__init__()
        self.heads = options.heads
        self.kv_heads = options.kv_heads or options.heads
        self.temperature = options.temperature
        self.cap = options.cap
        self.dropout = options.attention_dropout
        head_dim = options.width_of_head(dim)
        value_dim = options.value_head_dim or head_dim

        def projection(width: int) -> nn.Module:
            if options.projections == "none":
                return nn.Identity()
            return Linear(dim, width, bias=options.bias)

        self.query = projection(self.heads * head_dim)
        self.key = None if options.share_query_key else projection(self.kv_heads * head_dim)
        self.value = projection(self.kv_heads * value_dim)
        self.output = Linear(self.heads * value_dim, dim, bias=options.bias)
        self.attention: Attention = create(
            "attention",
            options.attention,
            heads=self.heads,
            head_dim=head_dim,
            layer=layer,
            layers=layers,
        )
        weighting: Weighting = create("weighting", options.weighting, heads=self.heads)
        self.weighting = None if "softmax" in weighting.entry.traits else weighting
        norm = options.query_key_norm
        self.query_norm = None if norm is None else HeadNorm(norm, self.heads, head_dim)
        self.key_norm = None if norm is None else HeadNorm(norm, self.kv_heads, head_dim)
        self.gate = Linear(dim, self.heads * value_dim, bias=options.bias) if options.gate else None
        self.head_scale = nn.Parameter(torch.empty(self.heads)) if options.head_scale else None
        self.reset_parameters()

    def extra_repr(self) -> str:
        return f"heads={self.heads}"

    def reset_parameters(self) -> None:
        """Scales of heads start at 1. Submodules initialise their parameters themselves."""
        if self.head_scale is not None:
            nn.init.ones_(self.head_scale)

    def value_matrices(self) -> list[Tensor]:
        """Those of values and of the output."""
        return [*value_matrices(self.value), *value_matrices(self.output)]

    def queries(self, x: Tensor) -> Tensor:
        """``(b n d) -> (b h n c)``"""
        return split_heads(self.query(x), self.heads, self.query_norm)

    def queries_keys_values(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """``(b n d) -> (b h n c), (b kv_heads n c), (b kv_heads n e)``; a projection that queries
        and keys share is computed once.
        """
        maps = [one for one in (self.query, self.key, self.value) if one is not None]
        *queries, k, v = projections(x, maps)
        return (
            split_heads(queries[0] if queries else k, self.heads, self.query_norm),
            split_heads(k, self.kv_heads, self.key_norm),
            split_heads(v, self.kv_heads),
        )

    def keys_values(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Keys, from :meth:`prepare_keys`, and values: ``(b k d) -> (b h|kv_heads k *), (b kv_heads
        k e)``.
        """
        k, v = projections(x, [self.query if self.key is None else self.key, self.value])
        k = self.prepare_keys(split_heads(k, self.kv_heads, self.key_norm))
        return k, split_heads(v, self.kv_heads)

    def prepare_keys(self, k: Tensor) -> Tensor:
        """The keys to cache: ``(b kv_heads n c) -> (b kv_heads n c)``, or ``-> (b h n *)`` if
        the attention overrides ``prepare_keys``. Prepared keys have one head per query head, since
        the parameters of an attention differ between heads.
        """
        return (
            k
            if type(self.attention).prepare_keys is Attention.prepare_keys
            else self.attention.prepare_keys(repeat_kv(k, self.heads))
        )

    def attend(
        self,
        x: Tensor,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Mask,
        bias: Tensor | Pairs | None = None,
    ) -> Tensor:
        """Attention, gate and output projection: ``(b q d), (b h q c), (b h|kv_heads k *),
        (b kv_heads k e) -> (b q d)``. ``x`` is the input of the block; keys are from
        :meth:`prepare_keys`.
        """
        y = self.attention(
            q,
            repeat_kv(k, self.heads),
            repeat_kv(v, self.heads),
            mask=mask,
            bias=bias,
            temperature=self.temperature,
            dropout=self.dropout if self.training else 0.0,
            cap=self.cap,
            weighting=self.weighting,
            keys_prepared=True,
        )
        if self.head_scale is not None:
            y = y * self.head_scale[:, None, None].to(y.dtype)
        y = y.transpose(1, 2).flatten(2)  # (b q (h e))
        if self.gate is not None:
            y = y * self.gate(x).sigmoid()
        return self.output(y)


class HeadNorm(nn.Module):
    """A norm of queries or keys: over the channels of each head (``over: head``; Qwen3, Gemma 3),
    or over the channels of all heads together (``over: all``; OLMo 2).

    ``option`` is ``query_key_norm`` of :class:`~tfzoo.models.options.StackOptions`.
    """

    def __init__(self, option: Mapping[str, Any], heads: int, head_dim: int) -> None:
        super().__init__()
        self.width = heads * head_dim if option.get("over") == "all" else head_dim
        self.norm: Norm = create("norm", option["norm"], dim=self.width)

    def forward(self, x: Tensor) -> Tensor:
        """``(b n (h c)) -> (b n (h c))``"""
        y: Tensor = self.norm(rearrange(x, "b n (h c) -> b (n h) c", c=self.width))
        return y.reshape(x.shape)


def split_heads(x: Tensor, heads: int, norm: HeadNorm | None = None) -> Tensor:
    """Normalise, and split into heads: ``(b n (h c)) -> (b h n c)``."""
    x = x if norm is None else norm(x)
    # Each step of decoding does this many times: faster than einops.
    return x.view(*x.shape[:-1], heads, x.shape[-1] // heads).transpose(1, 2)


class CrossAttention(SelfOrCrossAttention):
    """Queries are projections of the target, keys and values those of the encoder's output."""

    def keep_memory(self, memory: Tensor, cache: LayerCache) -> None:
        """Put the keys, from :meth:`prepare_keys`, and values of the encoder's output ``(b k d)``
        into an empty cache, in the order in which each step reads them.
        """
        k, v = self.keys_values(memory)
        cache.append(k=k.contiguous(), v=v.contiguous())

    def forward(self, x: Tensor, context: Context, layer: int) -> Tensor:
        """``(b q d) -> (b q d)``

        With a cache, ``x`` has one row per hypothesis, and keys and values have one per sentence.
        The hypotheses of a sentence are then computed as its queries.
        """
        cached = None if context.cache is None else context.cache.source[layer].tensors
        if cached:
            k, v = cached["k"], cached["v"]
        elif context.memory is not None:
            k, v = self.keys_values(context.memory)
        else:
            raise ValueError("cross-attention needs a memory")
        queries = x
        if x.shape[0] != k.shape[0]:
            each = x.shape[0] // k.shape[0]
            queries = x.reshape(k.shape[0], each * x.shape[1], x.shape[2])
        y = self.attend(queries, self.queries(queries), k, v, context.memory_mask or Mask())
        return y if queries is x else y.reshape(x.shape)
