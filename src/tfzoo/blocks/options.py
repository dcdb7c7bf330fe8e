"""The options of a stack, one side of a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_type_hints

from tfzoo.errors import BadOption, did_you_mean, listing
from tfzoo.registry import AttentionSpec, FeedForwardSpec, NormSpec, PositionSpec
from tfzoo.values import convert, is_plain

Residual = Literal["pre", "post", "none"]


@dataclass(frozen=True)
class StackOptions:
    """Depth, width of the heads, components and dropout of one stack.

    ``head_dim`` defaults to ``dim / heads`` and ``value_head_dim`` to ``head_dim``; ``kv_heads``
    fewer than ``heads`` are shared by groups of them (Ainslie et al. 2023), also in the cache, but
    for keys of which the attention makes others. ``share_query_key`` uses one projection for both.
    Scores are divided by ``temperature``. ``residual`` says where the norm stands: ``pre`` ``x +
    f(norm(x))``, ``post`` ``norm(x + f(x))``, ``none`` ``f(norm(x))``.
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

    def but(self, changes: Mapping[str, Any] | None) -> StackOptions:
        """The same with some options changed, checked and converted by their annotations.

        Raises:
            BadOption: an option that a stack does not have, or a value of the wrong type.
        """
        known, changed = get_type_hints(StackOptions), dict(changes or {})
        for key, value in changed.items():
            if key not in known:
                raise BadOption(
                    f"a stack has no option {key!r}.{did_you_mean(key, known)} Options: {listing(known, 99)}"
                )
            if is_plain(known[key]):
                try:
                    changed[key] = convert(value, known[key])
                except ValueError as error:
                    raise BadOption(f"option {key!r}: {error}") from None
        return replace(self, **changed)

    def check(self, dim: int) -> None:
        """Refuse numbers that fit no model of width ``dim``; raises BadOption."""
        for key in ("heads", "head_dim", "value_head_dim", "kv_heads", "max_length"):
            value = getattr(self, key)
            if value is not None and value < 1:
                raise BadOption(f"{key}={value} must be at least 1")
        if self.layers < 0:
            raise BadOption(f"layers={self.layers} must not be negative")
        if self.head_dim is None and dim % self.heads:
            divisors = [n for n in range(1, dim + 1) if dim % n == 0 and n <= 4 * self.heads]
            raise BadOption(
                f"heads={self.heads} do not divide dim={dim}. Choose one of {divisors}, or set head_dim"
            )
        if self.kv_heads is not None and self.heads % self.kv_heads:
            raise BadOption(f"kv_heads={self.kv_heads} do not divide heads={self.heads}")
        if self.share_query_key and self.kv_heads not in (None, self.heads):
            raise BadOption("share_query_key needs as many keys as queries: leave kv_heads unset")
        if not self.temperature > 0:
            raise BadOption(
                f"temperature={self.temperature} must be over 0 (towards 0 the softmax becomes a hard maximum)"
            )
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name.endswith("dropout") and not 0 <= value < 1:
                raise BadOption(f"{field.name}={value} is a probability: at least 0 and under 1")
        if self.residual not in ("pre", "post", "none"):
            raise BadOption(f"residual={self.residual!r} is not 'pre', 'post' or 'none'")
