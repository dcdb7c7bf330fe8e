"""The options of a stack as keyword arguments of the constructor of a layer, stack or model."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any, Literal, ParamSpec, TypedDict, cast, get_args, get_type_hints

from tfzoo.base.registry import (
    AttentionSpec,
    FeedForwardSpec,
    MixerSpec,
    NormSpec,
    PositionSpec,
    ResidualSpec,
    WeightingSpec,
)
from tfzoo.errors import did_you_mean
from tfzoo.models.architectures import options_like
from tfzoo.models.clashes import check_attention_options
from tfzoo.models.options import StackOptions, option_types

P = ParamSpec("P")


class LayerKeywords(TypedDict, total=False):
    """The options of one layer as keyword arguments of a constructor, except ``heads`` and
    ``position``, which it declares itself. Defaults are those of :class:`StackOptions`.
    """

    attention: AttentionSpec
    weighting: WeightingSpec
    norm: NormSpec
    feedforward: FeedForwardSpec
    head_dim: int | None
    value_head_dim: int | None
    kv_heads: int | None
    share_query_key: bool
    projections: Literal["linear", "none"]
    bias: bool
    temperature: float
    cap: float | None
    window: int | None
    query_key_norm: dict[str, Any] | None
    gate: bool
    head_scale: bool
    dropout: float
    attention_dropout: float
    feedforward_dropout: float
    mixer: MixerSpec
    residual: ResidualSpec
    parallel: Literal["one_norm", "two_norms"] | None
    max_length: int


class StackKeywords(LayerKeywords, total=False):
    """The options of a stack as keyword arguments of a constructor, except ``heads`` and
    ``layers``, which it declares itself.
    """

    position: PositionSpec
    pattern: list[dict[str, Any]] | None
    embedding_norm: NormSpec | None
    embedding_projection: bool
    first_norm: bool


def with_stack_options(init: Callable[P, None]) -> Callable[P, None]:
    """Decorate an ``__init__`` that ends with ``**stack: Unpack[...]`` of :class:`StackKeywords` or
    :class:`LayerKeywords`.

    - The decorated signature lists each of these options with type and default. ``help`` shows it,
      and recipes are checked against it.
    - An argument ``like`` names an architecture. Its options replace the defaults of those that the
      call does not set.
    - ``self.config`` is set to the arguments of the call, defaults and the options of ``like``
      included. Checkpoints store it; ``type(self)(**self.config)`` builds a module of the same
      structure.
    """
    signature = _signature(init)

    def construct(self: Any, *args: Any, **kwargs: Any) -> None:
        for name in sorted(kwargs.keys() - signature.parameters.keys()):
            raise TypeError(
                f"{type(self).__name__} has no argument {name!r}."
                f"{did_you_mean(name, signature.parameters)}"
            )
        if kwargs.get("like") is not None:
            kwargs = {**options_like(kwargs["like"], type(self)), **kwargs, "like": None}
        call = signature.bind(self, *args, **kwargs)
        call.apply_defaults()
        _, *given = call.arguments.items()
        cast(Callable[..., None], init)(self, **dict(given))
        self.config = {key: value for key, value in given if key != "like"}
        check_attention_options(self, self.config)

    for name in ("__name__", "__qualname__", "__module__", "__doc__"):
        setattr(construct, name, getattr(init, name))
    construct.__annotations__ = {
        name: one.annotation
        for name, one in signature.parameters.items()
        if one.annotation is not one.empty
    }
    construct.__signature__ = signature  # type: ignore[attr-defined]  # read by inspect
    return cast(Callable[P, None], construct)


def _signature(init: Callable[..., None]) -> inspect.Signature:
    """The signature of ``init``, in which ``**stack`` is replaced by its options, one by one."""
    hints = get_type_hints(init, include_extras=True)
    own = [
        one.replace(annotation=hints.get(name, one.empty))
        for name, one in inspect.signature(init).parameters.items()
        if one.kind is not one.VAR_KEYWORD
    ]
    (keywords,) = get_args(hints["stack"])  # of Unpack[...]
    stack = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=option_types()[field.name],
        )
        for field in fields(StackOptions)
        if field.name in keywords.__optional_keys__
    ]
    return inspect.Signature(sorted([*own, *stack], key=lambda one: one.kind))
