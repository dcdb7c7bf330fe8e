"""The options of a stack as keyword arguments of the constructor of a layer, stack or model."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, ParamSpec, cast

from torch import nn

from tfzoo.base.registry import registry
from tfzoo.base.values import check_names, parameters
from tfzoo.errors import BadOption, Clash, listing, under
from tfzoo.models.architectures import options_like
from tfzoo.models.options import ATTENTION_OPTIONS, STACK_KEYS, StackOptions, option_types
from tfzoo.models.rules import UNREAD, names_that_fit, options_read
from tfzoo.models.stack import Stack
from tfzoo.models.transformer_layer import TransformerLayer

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
        # A derived class may pass on what it does not take itself.
        check_names(type(self), kwargs, [*signature.parameters][1:])
        if kwargs.get("like") is not None:
            kwargs = {**options_like(kwargs["like"], type(self)), **kwargs, "like": None}
        try:
            call = signature.bind(self, *args, **kwargs)
        except TypeError as error:
            raise BadOption(f"{type(self).__name__}: {error}") from None
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


def check_attention_options(
    module: nn.Module, options: Mapping[str, Any], config: Mapping[str, Any] | None = None
) -> None:
    """Check that something in a model, stack or layer reads the ``options`` of attention that are
    not the defaults; of those that ``encoder`` or ``decoder`` names something there, of those of an
    entry of ``pattern`` one of its layers. ``config`` has options that were given around it.
    """
    config = {**(config or {}), **options}
    check_read(module, options, config)
    pattern = options.get("pattern") or []
    for number, entry in enumerate(pattern):
        stacks = [part for part in module.modules() if isinstance(part, Stack)]
        layers = [layer for stack in stacks for layer in stack.layers[number :: len(pattern)]]
        with under(f"pattern.{number}"):
            check_read(nn.ModuleList(layers), entry, {**config, **entry})
    for side in ("encoder", "decoder"):
        if changes := options.get(side):
            with under(side):
                check_attention_options(getattr(module, side), changes, config)


def check_read(module: nn.Module, options: Mapping[str, Any], config: Mapping[str, Any]) -> None:
    """Check that something in a module reads those ``options`` of attention that are not the
    defaults; ``config`` has these and the others.
    """
    if not any(isinstance(part, TransformerLayer) for part in module.modules()):
        return
    read = {"heads"}.union(*(getattr(part, "reads", ()) for part in module.modules()))
    unread = {
        key
        for key in ATTENTION_OPTIONS & options.keys() - read
        if options[key] != getattr(StackOptions, key)
    }
    if not unread:
        return
    mixer = registry("mixer").options(config["mixer"])[0]
    others = names_that_fit("mixer", lambda entry: unread <= options_read(entry))
    raise Clash(
        UNREAD,
        f"nothing reads {listing(unread)}: of the options of attention, mixer {mixer.name!r} reads "
        f"{listing(options_read(mixer))}.",
        f"Leave it out, or use another mixer: {others}. This cannot be allowed ({UNREAD})",
    )
