"""The options of a stack of layers: an encoder or a decoder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, TypedDict, get_type_hints

from tfzoo.errors import BadOption, did_you_mean, listing
from tfzoo.registry import AttentionSpec, FeedForwardSpec, NormSpec, PositionSpec
from tfzoo.values import check_range, convert, is_plain

Residual = Literal["pre", "post", "none"]


@dataclass(frozen=True)
class StackOptions:
    """Depth, heads, components and dropout of one stack.

    Args:
        layers: number of layers, at least 0.
        heads: number of attention heads.
        attention, norm, position, feedforward: components, by name or as ``{name: ..., option:
            ...}``.
        head_dim: width of a query and a key of one head; ``dim / heads`` by default.
        value_head_dim: width of a value of one head; ``head_dim`` by default.
        kv_heads: number of heads of keys and values, each shared by ``heads / kv_heads`` heads of
            queries (Ainslie et al. 2023, arXiv:2305.13245); ``heads`` by default. The cache has
            ``kv_heads`` heads, except that keys have ``heads`` if the attention overrides
            ``prepare_keys``.
        share_query_key: queries and keys have the same projection.
        temperature: divides the scores of self-attention and cross-attention.
        dropout: dropout probability after the embeddings and after each sublayer.
        attention_dropout: dropout probability of the attention weights.
        feedforward_dropout: dropout probability of the hidden layer of the feed-forward sublayer.
        residual: norm and residual connection: ``pre`` ``x + f(norm(x))``, ``post`` ``norm(x +
            f(x))``, ``none`` ``f(norm(x))``.
        max_length: number of positions of a positional encoding with the trait ``bounded``; others
            have no limit.

    Raises:
        BadOption: a value of the wrong type or out of range.
    """

    layers: int = 6
    heads: int = 8
    attention: AttentionSpec = "scaled_dot_product"
    norm: NormSpec = "layer"
    position: PositionSpec = "sinusoidal"
    feedforward: FeedForwardSpec = "relu"
    head_dim: int | None = None
    value_head_dim: int | None = None
    kv_heads: int | None = None
    share_query_key: bool = False
    temperature: float = 1.0
    dropout: float = 0.1
    attention_dropout: float = 0.0
    feedforward_dropout: float = 0.0
    residual: Residual = "pre"
    max_length: int = 1024

    def __post_init__(self) -> None:
        for key, hint in option_types().items():
            if is_plain(hint):
                try:
                    object.__setattr__(self, key, convert(getattr(self, key), hint))
                except ValueError as error:
                    raise BadOption(f"{key} {error}") from None
        for key in ("heads", "head_dim", "value_head_dim", "kv_heads", "max_length"):
            optional = option_types()[key] == int | None
            check_range(key, getattr(self, key), ge=1, whole=True, optional=optional)
        check_range("layers", self.layers, ge=0, whole=True)
        check_range("temperature", self.temperature, gt=0)
        for key in ("dropout", "attention_dropout", "feedforward_dropout"):
            check_range(key, getattr(self, key), ge=0, lt=1)
        if self.kv_heads is not None and self.heads % self.kv_heads:
            raise BadOption(f"kv_heads={self.kv_heads} do not divide heads={self.heads}")
        if self.share_query_key and self.kv_heads not in (None, self.heads):
            raise BadOption("share_query_key needs as many keys as queries: leave kv_heads unset")

    def updated(self, changes: Mapping[str, Any] | None, stack: str = "stack") -> StackOptions:
        """Return a copy with some options changed. ``stack`` is its name in messages.

        Raises:
            BadOption: an option that a stack does not have, or a value that it cannot take.
        """
        for key in changes or {}:
            if key not in option_types():
                raise BadOption(
                    f"{stack} has no option {key!r}.{did_you_mean(key, option_types())} "
                    f"Options: {listing(option_types(), 99)}"
                )
        try:
            return replace(self, **(changes or {}))
        except BadOption as error:
            raise BadOption(f"{stack}: {error}") from None

    def width_of_head(self, dim: int) -> int:
        """The width of one head in a model of width ``dim``: ``head_dim``, or ``dim / heads``.

        Raises:
            BadOption: ``dim`` is under 1, or not divisible by ``heads``.
        """
        check_range("dim", dim, ge=1, whole=True)
        if self.head_dim is not None:
            return self.head_dim
        if dim % self.heads:
            divisors = [n for n in range(1, dim + 1) if dim % n == 0 and n <= 4 * self.heads]
            raise BadOption(
                f"heads={self.heads} do not divide dim={dim}. "
                f"Choose one of {divisors}, or set head_dim"
            )
        return dim // self.heads


@cache
def option_types() -> Mapping[str, Any]:
    """The type of each option of :class:`StackOptions`."""
    return get_type_hints(StackOptions, include_extras=True)


class LayerKeywords(TypedDict, total=False):
    """The options of one layer as keyword arguments of a constructor, except ``heads`` and
    ``position``, which it declares itself. Defaults are those of :class:`StackOptions`.
    """

    attention: AttentionSpec
    norm: NormSpec
    feedforward: FeedForwardSpec
    head_dim: int | None
    value_head_dim: int | None
    kv_heads: int | None
    share_query_key: bool
    temperature: float
    dropout: float
    attention_dropout: float
    feedforward_dropout: float
    residual: Residual
    max_length: int


class StackKeywords(LayerKeywords, total=False):
    """The options of a stack as keyword arguments of a constructor, except ``heads`` and
    ``layers``, which it declares itself.
    """

    position: PositionSpec
