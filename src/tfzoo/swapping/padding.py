"""Tells norms that mix tokens which tokens of a batch are padding."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

from tfzoo.errors import BadOption, did_you_mean, listing

Valid = str | bool | Callable[..., Tensor]
"""Where the padding is; see :func:`tfzoo.swap`."""

ATTRIBUTE = "tfzoo_padding"


class Padding:
    """The padding of the batch that a model computes at present. Held by the model, which sets it
    when its ``forward`` begins, and by its norms, which read it.
    """

    def __init__(self, model: nn.Module, valid: str | Callable[..., Tensor]) -> None:
        self.model = type(model).__name__
        self.known = False
        self.valid: Tensor | None = None
        self.argument, self.place, self.at_padding = "", -1, False
        self.function: Callable[..., Tensor] | None = None
        if not isinstance(valid, str):
            self.function = valid
            return
        self.argument, self.at_padding = valid.removeprefix("~"), valid.startswith("~")
        parameters = inspect.signature(model.forward).parameters
        takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
        if self.argument not in parameters and not takes_any:
            raise BadOption(
                f"valid: {self.model}.forward has no argument {self.argument!r}."
                f"{did_you_mean(self.argument, parameters)} It has: {listing(parameters)}"
            )
        if self.argument in parameters:
            self.place = list(parameters).index(self.argument)

    def read(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Tensor | None:
        """The mask from the arguments of the model's ``forward``, True at tokens."""
        if self.function is not None:
            return self.function(*args, **kwargs)
        found = kwargs.get(self.argument)
        if found is None and 0 <= self.place < len(args):
            found = args[self.place]
        if found is None:
            return None
        mask: Tensor = found.bool()  # of an additive mask, -inf is True: it stands at padding
        return ~mask if self.at_padding else mask


class _Read:
    """Before the model's forward."""

    def __init__(self, padding: Padding) -> None:
        self.padding = padding

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.padding.valid, self.padding.known = self.padding.read(args, kwargs), True


class _Forget:
    """After the model's forward."""

    def __init__(self, padding: Padding) -> None:
        self.padding = padding

    def __call__(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        self.padding.valid, self.padding.known = None, False


class _Give:
    """Before a norm's forward."""

    def __init__(self, padding: Padding, name: str) -> None:
        self.padding, self.name = padding, name

    def __call__(self, norm: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        (x, *given), padding = args, self.padding
        if given:
            return args
        if not padding.known:
            raise BadOption(
                f"{self.name} mixes tokens and runs outside of {padding.model}.forward, so it is "
                "not known which tokens are padding: swap the parts of the module whose forward "
                "is called (activation checkpointing is not possible with such a norm)"
            )
        valid = padding.valid
        if valid is not None and valid.shape != x.shape[:2]:
            raise BadOption(
                f"{self.name} mixes tokens and got {tuple(x.shape)}, but the padding mask is "
                f"{tuple(valid.shape)}: it must be (b n) for (b n d). Leave this norm out with "
                f"skip={self.name!r}"
            )
        return x, valid


def tell_padding(model: nn.Module, valid: Valid | None) -> Padding | None:
    """Let the model record the padding of each batch; None where there is none (``valid=True``).
    A model remembers how: a second swap need not say it again.

    Raises:
        BadOption: the model's ``forward`` has no such argument.
    """
    if valid is True:
        return None
    padding: Padding | None = getattr(model, ATTRIBUTE, None)
    if padding is None:
        padding = Padding(model, valid)  # type: ignore[arg-type]  # checked by the caller
        setattr(model, ATTRIBUTE, padding)
        model.register_forward_pre_hook(_Read(padding), with_kwargs=True)
        model.register_forward_hook(_Forget(padding), always_call=True)
    elif valid is not None:
        vars(padding).update(vars(Padding(model, valid)))  # type: ignore[arg-type]  # likewise
    return padding


def give_padding(norm: nn.Module, name: str, padding: Padding) -> None:
    """Let a norm that mixes tokens get the padding that its model recorded."""
    norm.register_forward_pre_hook(_Give(padding, name))
