"""The options of a stack as keyword arguments of the constructor of a layer, stack or model."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any, ParamSpec, cast

from tfzoo.base.arguments import parameters
from tfzoo.errors import BadOption, did_you_mean
from tfzoo.models.architectures import options_like
from tfzoo.models.clashes import check_attention_options
from tfzoo.models.options import STACK_KEYS, StackOptions, option_types

P = ParamSpec("P")


def with_stack_options(init: Callable[P, None]) -> Callable[P, None]:
    """Decorate an ``__init__`` that ends with ``**stack: Any``: the options of a stack that it does
    not declare itself; of one without ``layers``, those of a layer.

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
            raise BadOption(
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
    own = [one for one in parameters(init) if one.kind is not one.VAR_KEYWORD]
    known = {one.name for one in own}
    known |= set() if "layers" in known else {*STACK_KEYS}
    stack = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=option_types()[field.name],
        )
        for field in fields(StackOptions)
        if field.name not in known
    ]
    return inspect.Signature(sorted([*own, *stack], key=lambda one: one.kind))
