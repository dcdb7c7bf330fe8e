"""The options of a stack of layers: an encoder or a decoder."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, get_type_hints

from tfzoo.base.registry import (
    AttentionSpec,
    FeedForwardSpec,
    MixerSpec,
    NormSpec,
    PositionSpec,
    ResidualSpec,
    Spec,
    WeightingSpec,
    registry,
)
from tfzoo.base.values import check_range, convert, is_plain
from tfzoo.errors import BadOption, did_you_mean, listing, under
from tfzoo.models.rules import Parts

SMALLEST_CAP = 1e-3
"""The smallest soft cap of scores: under it the weights of a query differ by less than 0.2 %."""
KINDS = ("attention", "weighting", "norm", "residual", "position", "feedforward", "mixer")
"""The kinds of components in a stack."""


@dataclass(frozen=True)
class StackOptions:
    """Depth, heads, components and dropout of one stack.

    Args:
        layers: number of layers, at least 0.
        heads: number of attention heads.
        attention, weighting, norm, position, feedforward: components, by name or as
            ``{name: ..., option: ...}``.
        mixer: the component that is self-attention or its replacement.
        residual: the component that is the residual connection and the placement of the norm.
        head_dim: width of a query and a key of one head; ``dim / heads`` by default.
        value_head_dim: width of a value of one head; ``head_dim`` by default.
        kv_heads: number of heads of keys and values, each shared by ``heads / kv_heads`` heads of
            queries (Ainslie et al. 2023, arXiv:2305.13245); ``heads`` by default. The cache has
            ``kv_heads`` heads, except that keys have ``heads`` if the attention overrides
            ``prepare_keys``.
        share_query_key: queries and keys have the same projection.
        projections: ``none``: queries, keys and values are the tokens themselves, split into
            heads; the output projection stays.
        bias: the projections of queries, keys, values, output and gate have a bias.
        temperature: divides the scores of self-attention and cross-attention.
        cap: soft cap of the scores, ``cap * tanh(scores / temperature / cap)`` (Gemma 2; Gemma Team
            2024, arXiv:2408.00118, section 2); None: no cap.
        window: a token attends only to tokens at a distance under ``window`` before it, itself
            included; in encoders, at a distance of at most ``window // 2`` to each side (Beltagy et
            al. 2020, arXiv:2004.05150). Cross-attention has no window. None: no limit.
        query_key_norm: ``{norm: rms, over: head}``: a norm of queries and keys, over the channels
            of each head, or with ``over: all`` over those of all heads (Henry et al. 2020,
            arXiv:2010.04245; Qwen3, OLMo 2); None: no norm.
        gate: the heads' outputs are multiplied by ``sigmoid(x W_g + b_g)``, elementwise; ``x`` is
            the block's input (Qiu et al. 2025, arXiv:2505.06708).
        head_scale: each head's output is multiplied by a trained number (Shleifer et al. 2021,
            arXiv:2110.09456, section 2).
        embedding_norm: a norm after the embeddings and what the positional encoding adds to them
            (BERT); None: none.
        embedding_projection: a linear layer after the embeddings and their norm (FNet).
        first_norm: False leaves out the norm of the first sublayer of the first layer, for models
            that have normalised the embeddings before (ModernBERT).
        dropout: dropout probability after the embeddings and after each sublayer.
        attention_dropout: dropout probability of the attention weights.
        feedforward_dropout: dropout probability of the hidden layer of the feed-forward sublayer.
        parallel: attention and feed-forward layer read the same input, ``x + attention(norm(x)) +
            feedforward(norm(x))``: ``one_norm`` (GPT-J) or ``two_norms``, one for each (GPT-NeoX).
        pattern: for layers that differ: a list with one entry per layer, repeated until the last
            layer. An entry holds the options that override those of the stack, such as
            ``[{window: 128}, {}]`` for a window in every other layer.
        max_length: number of positions of a positional encoding with the trait ``bounded``; others
            have no limit.

    Raises:
        BadOption: a value of the wrong type or out of range.
    """

    layers: int = 6
    heads: int = 8
    attention: AttentionSpec = "scaled_dot_product"
    weighting: WeightingSpec = "softmax"
    norm: NormSpec = "layer"
    position: PositionSpec = "sinusoidal"
    feedforward: FeedForwardSpec = "relu"
    head_dim: int | None = None
    value_head_dim: int | None = None
    kv_heads: int | None = None
    share_query_key: bool = False
    projections: Literal["linear", "none"] = "linear"
    bias: bool = True
    temperature: float = 1.0
    cap: float | None = None
    window: int | None = None
    query_key_norm: dict[str, Any] | None = None
    gate: bool = False
    head_scale: bool = False
    embedding_norm: NormSpec | None = None
    embedding_projection: bool = False
    first_norm: bool = True
    dropout: float = 0.1
    attention_dropout: float = 0.0
    feedforward_dropout: float = 0.0
    mixer: MixerSpec = "multihead"
    residual: ResidualSpec = "pre"
    parallel: Literal["one_norm", "two_norms"] | None = None
    pattern: list[dict[str, Any]] | None = None
    max_length: int = 1024

    def __post_init__(self) -> None:
        for key, hint in option_types().items():
            if is_plain(hint):
                try:
                    object.__setattr__(self, key, convert(getattr(self, key), hint))
                except ValueError as error:
                    raise BadOption(f"{key} {error}") from None
        for key in ("heads", "head_dim", "value_head_dim", "kv_heads", "window", "max_length"):
            optional = option_types()[key] == int | None
            check_range(key, getattr(self, key), ge=1, whole=True, optional=optional)
        check_range("layers", self.layers, ge=0, whole=True)
        check_range("temperature", self.temperature, ge=1e-6, le=1e6)
        check_range("cap", self.cap, ge=SMALLEST_CAP, optional=True)
        for key in ("dropout", "attention_dropout", "feedforward_dropout"):
            check_range(key, getattr(self, key), ge=0, lt=1)
        if self.kv_heads is not None and self.heads % self.kv_heads:
            raise BadOption(f"kv_heads={self.kv_heads} do not divide heads={self.heads}")
        if self.share_query_key and self.kv_heads not in (None, self.heads):
            raise BadOption(
                "share_query_key needs as many heads of keys as of queries: leave kv_heads unset"
            )
        if self.projections == "none":
            for key in ("head_dim", "value_head_dim", "kv_heads", "share_query_key"):
                if getattr(self, key):
                    raise BadOption(f"projections: none leaves nothing for {key} to act on")
        if self.parallel and not self.first_norm:
            raise BadOption("first_norm: false does not work with parallel: leave one of them out")
        if self.query_key_norm is not None:
            check_query_key_norm(self.query_key_norm)
        if self.pattern is not None:
            check_pattern(self.pattern)

    def updated(self, changes: Mapping[str, Any] | None, stack: str = "stack") -> StackOptions:
        """Return a copy with some options changed. ``stack`` is its name in messages."""
        if not changes:
            return self
        for key in changes:
            if key not in option_types():
                raise BadOption(
                    f"{stack} has no option {key!r}.{did_you_mean(key, option_types())} "
                    f"Options: {listing(option_types(), 99)}"
                )
        with under(stack):
            return replace(self, **changes)

    def each_layer(self) -> list[StackOptions]:
        """The options of each layer, as ``pattern`` changes them."""
        if not self.pattern:
            return [self] * self.layers
        plain = replace(self, pattern=None)
        entries = [plain.updated(changes, f"pattern.{i}") for i, changes in enumerate(self.pattern)]
        return [entries[layer % len(entries)] for layer in range(self.layers)]

    def parts(self, causal: bool, pooling: Spec | None = None) -> Parts:
        """The components of a stack or layer with these options, and the pooling after it."""
        entries = {kind: registry(kind).options(getattr(self, kind))[0] for kind in KINDS}
        norm, traits = self.query_key_norm, entries["residual"].traits
        return Parts(
            **entries,
            query_key_norm=None if norm is None else registry("norm").options(norm["norm"])[0],
            causal=causal,
            window=self.window is not None,
            ends_with_norm="final_norm" in traits
            or ("ends_with_norm" in traits and self.layers > 0),
            pooling=None if pooling is None else registry("pooling").options(pooling)[0],
        )

    def width_of_head(self, dim: int) -> int:
        """The width of one head in a model of width ``dim``: ``head_dim``, or ``dim / heads``."""
        check_range("dim", dim, ge=1, whole=True)
        if self.head_dim is not None:
            return self.head_dim
        if dim % self.heads:
            divisors = [n for n in range(1, min(dim, 4 * self.heads) + 1) if dim % n == 0]
            raise BadOption(
                f"heads={self.heads} do not divide dim={dim}. "
                f"Choose one of {divisors}, or set head_dim"
            )
        return dim // self.heads


def check_query_key_norm(option: object) -> None:
    """Check the option ``query_key_norm``."""
    if (
        not isinstance(option, Mapping)
        or not option.keys() <= {"norm", "over"}
        or "norm" not in option
        or option.get("over", "head") not in ("head", "all")
    ):
        raise BadOption(
            f"query_key_norm must be {{norm: NAME, over: head}} or {{norm: NAME, over: all}}, not "
            f"{option!r}"
        )
    registry("norm").options(option["norm"])


ATTENTION_OPTIONS: Set[str] = frozenset(
    (
        "heads",
        "attention",
        "weighting",
        "head_dim",
        "value_head_dim",
        "kv_heads",
        "share_query_key",
        "projections",
        "bias",
        "temperature",
        "cap",
        "query_key_norm",
        "gate",
        "head_scale",
        "attention_dropout",
    )
)
"""Options of attention, which self-attention and cross-attention read, other mixers in part."""
STACK_KEYS = ("layers", "pattern", "embedding_norm", "embedding_projection", "first_norm")
"""Options of a whole stack, which an entry of ``pattern`` cannot override."""


def check_pattern(pattern: object) -> None:
    """Check the form of the option ``pattern``; the entries are checked where layers are built."""
    if (
        not isinstance(pattern, list)
        or not pattern
        or not all(isinstance(entry, Mapping) for entry in pattern)
    ):
        raise BadOption(f"pattern must be a list such as [{{window: 128}}, {{}}], not {pattern!r}")
    for entry in pattern:
        for key in STACK_KEYS:
            if key in entry:
                raise BadOption(f"pattern: {key} belongs to the stack, not to a layer")


@cache
def option_types() -> Mapping[str, Any]:
    """The type of each option of :class:`StackOptions`."""
    return get_type_hints(StackOptions, include_extras=True)
