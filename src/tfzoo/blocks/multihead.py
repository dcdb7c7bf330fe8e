"""Multi-head attention around any attention component (Vaswani et al. 2017, section 3.2.2)."""

from __future__ import annotations

from einops import rearrange, repeat
from torch import Tensor, nn

from tfzoo.blocks.cache import KeyValueCache
from tfzoo.blocks.context import Context
from tfzoo.blocks.linear import Linear
from tfzoo.blocks.options import StackOptions
from tfzoo.contracts import Attention
from tfzoo.masks import Mask
from tfzoo.registry import create


def repeat_kv(x: Tensor, heads: int) -> Tensor:
    """Repeat each head of keys or values for all query heads of its group: ``(b kv_heads n c) ->
    (b h n c)``.
    """
    return x if x.shape[1] == heads else repeat(x, "b h n c -> b (h g) n c", g=heads // x.shape[1])


class SelfOrCrossAttention(nn.Module):
    """``concat(head_1, ..., head_h) W_o`` with ``head_i = attention(x W_q_i, y W_k_i, y W_v_i)``.
    ``y`` is ``x`` in :class:`SelfAttention`, the encoder's output in :class:`CrossAttention`.

    ``options.head_dim`` is the width of a query and a key of one head, ``value_head_dim`` that of a
    value, and ``kv_heads`` the number of heads of keys and values.

    Raises:
        BadOption: ``dim`` is not divisible by ``options.heads``, and ``head_dim`` is not given.
    """

    def __init__(self, dim: int, options: StackOptions) -> None:
        super().__init__()
        self.heads = options.heads
        self.kv_heads = options.kv_heads or options.heads
        self.temperature = options.temperature
        self.dropout = options.attention_dropout
        head_dim = options.width_of_head(dim)
        value_dim = options.value_head_dim or head_dim
        self.query = Linear(dim, self.heads * head_dim)
        self.key = None if options.share_query_key else Linear(dim, self.kv_heads * head_dim)
        self.value = Linear(dim, self.kv_heads * value_dim)
        self.output = Linear(self.heads * value_dim, dim)
        self.attention: Attention = create(
            "attention", options.attention, heads=self.heads, head_dim=head_dim
        )

    def split_heads(self, x: Tensor, heads: int) -> Tensor:
        """``(b n (h c)) -> (b h n c)``"""
        return rearrange(x, "b n (h c) -> b h n c", h=heads)

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
        self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Tensor | None = None
    ) -> Tensor:
        """Attention and output projection: ``(b h q c), (b h|kv_heads k *), (b kv_heads k e) ->
        (b q d)``. Keys are from :meth:`prepare_keys`.
        """
        dropout = self.dropout if self.training else 0.0
        k, v = repeat_kv(k, self.heads), repeat_kv(v, self.heads)
        y = self.attention(
            q,
            k,
            v,
            mask=mask,
            bias=bias,
            temperature=self.temperature,
            dropout=dropout,
            keys_prepared=True,
        )
        return self.output(rearrange(y, "b h q e -> b q (h e)"))  # type: ignore[no-any-return]


class SelfAttention(SelfOrCrossAttention):
    """Queries, keys and values are projections of the same tokens."""

    def forward(self, x: Tensor, context: Context, layer: int) -> Tensor:
        """``(b n d) -> (b n d)``"""
        q = self.split_heads(self.query(x), self.heads)
        k = q if self.key is None else self.split_heads(self.key(x), self.kv_heads)
        v = self.split_heads(self.value(x), self.kv_heads)
        if context.rotation is not None:
            q, k = context.rotation(q), context.rotation(k)
        k = self.prepare_keys(k)
        if context.cache is not None:
            k, v = context.cache.target[layer].append(k, v)
        return self.attend(q, k, v, context.mask, context.bias)


class CrossAttention(SelfOrCrossAttention):
    """Queries are projections of the target, keys and values those of the encoder's output."""

    def keys_and_values(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of the encoder's output: ``(b k d) -> (b h|kv_heads k *),
        (b kv_heads k e)``. Keys are from :meth:`prepare_keys`.
        """
        k = self.query(memory) if self.key is None else self.key(memory)
        k = self.prepare_keys(self.split_heads(k, self.kv_heads))
        return k, self.split_heads(self.value(memory), self.kv_heads)

    def forward(self, x: Tensor, context: Context, layer: int) -> Tensor:
        """``(b q d) -> (b q d)``

        With a cache, ``x`` has one row per hypothesis, and keys and values have one per sentence.
        The hypotheses of a sentence are then computed as its queries.
        """
        cached = KeyValueCache() if context.cache is None else context.cache.source[layer]
        k, v = cached.k, cached.v
        if k is None or v is None:
            if context.memory is None:
                raise ValueError("cross-attention needs a memory")
            k, v = cached.append(*self.keys_and_values(context.memory))
        q = self.query(x).reshape(k.shape[0], -1, self.query.out_features)
        q = self.split_heads(q, self.heads)
        return self.attend(q, k, v, context.memory_mask or Mask()).reshape(x.shape)
