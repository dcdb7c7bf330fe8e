"""Passes the padding mask of a model's forward pass to the norms that mix tokens."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from torch import Tensor, nn

from tfzoo.errors import BadOption, did_you_mean, listing

Valid = str | bool | Callable[..., Tensor]
"""How to get the padding mask; see :func:`tfzoo.swap`."""

ATTRIBUTE = "tfzoo_padding"


class Padding:
    """The padding mask of a forward pass. A pre-hook of the model's ``forward`` sets it from the
    arguments, and pre-hooks of the norms that mix tokens read it.

    ``known`` is True during the model's ``forward``; ``valid`` is then the mask ``(b n)``, True at
    tokens, or None without padding.
    """

    def __init__(self, model: nn.Module, source: str | Callable[..., Tensor]) -> None:
        self.model, self.source = type(model).__name__, source
        self.known = False
        self.valid: Tensor | None = None
        parameters = inspect.signature(model.forward).parameters
        self.names = list(parameters)
        takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
        if isinstance(source, str) and not takes_any and source.removeprefix("~") not in self.names:
            name = source.removeprefix("~")
            raise BadOption(
                f"valid: {self.model}.forward has no argument {name!r}."
                f"{did_you_mean(name, parameters)} It has: {listing(parameters)}"
            )

    def read(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Tensor | None:
        """The mask from the arguments of the model's ``forward``, True at tokens."""
        if not isinstance(self.source, str):
            return self.source(*args, **kwargs)
        given = dict(zip(self.names, args, strict=False)) | dict(kwargs)
        found = given.get(self.source.removeprefix("~"))
        if found is None:
            return None
        mask: Tensor = found.bool()  # additive masks too: -inf, at padding, becomes True
        return ~mask if self.source.startswith("~") else mask

    def set(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Pre-hook of the model's ``forward``."""
        self.valid, self.known = self.read(args, kwargs), True

    def clear(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        """Hook after the model's ``forward``."""
        self.valid, self.known = None, False

    def add_to(self, name: str, norm: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Pre-hook of the ``forward`` of a norm of this name: ``x`` -> ``x, valid``.

        Raises:
            BadOption: the model's ``forward`` is not running, or the mask does not fit ``x``.
        """
        x, *given = args
        if any(valid is not None for valid in given):
            return args
        if not self.known:
            raise BadOption(
                f"{name} mixes tokens and runs outside of {self.model}.forward, so it is not known "
                "which tokens are padding: swap the parts of the module whose forward is called "
                "(activation checkpointing is not possible with such a norm)"
            )
        if self.valid is not None and self.valid.shape != x.shape[:2]:
            raise BadOption(
                f"{name} mixes tokens and got {tuple(x.shape)}, but the padding mask is "
                f"{tuple(self.valid.shape)}: it must be (b n) for (b n d). Leave this norm out "
                f"with skip={name!r}"
            )
        return x, self.valid


def record_padding(model: nn.Module, valid: Valid | None) -> Padding | None:
    """Register hooks on the model that record the padding mask of each forward pass; None if there
    is never padding (``valid=True``). A second swap without ``valid`` uses that of the first.

    Raises:
        BadOption: the model's ``forward`` has no such argument.
    """
    if valid is True:
        return None
    padding: Padding | None = getattr(model, ATTRIBUTE, None)
    if padding is None:
        padding = Padding(model, valid)  # type: ignore[arg-type]  # checked by the caller
        setattr(model, ATTRIBUTE, padding)
        model.register_forward_pre_hook(padding.set, with_kwargs=True)
        model.register_forward_hook(padding.clear, always_call=True)
    elif valid is not None:
        vars(padding).update(vars(Padding(model, valid)))  # type: ignore[arg-type]  # likewise
    return padding


def pass_padding(norm: nn.Module, name: str, padding: Padding) -> None:
    """Register a hook that passes the recorded padding mask to a norm that mixes tokens."""
    norm.register_forward_pre_hook(partial(padding.add_to, name))
