"""What constructors take: the one reader of signatures."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import cache
from inspect import Parameter
from typing import Any, get_type_hints

from tfzoo.errors import BadOption, did_you_mean, listing

VARIABLE = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def parameters(function: Callable[..., Any]) -> list[Parameter]:
    """The parameters of a function, of a method with its ``self``. Annotations are types; where a
    name in one of them is not defined when the program runs, as under ``TYPE_CHECKING``, all are
    ``Any``.
    """
    hints: dict[str, Any] = {}
    with suppress(NameError):
        hints = get_type_hints(inspect.unwrap(function), include_extras=True)
    return [
        one if one.annotation is one.empty else one.replace(annotation=hints.get(one.name, Any))
        for one in inspect.signature(function).parameters.values()
    ]


@cache
def arguments(cls: type) -> Mapping[str, Parameter]:
    """What the constructor of a class takes, by name. One with ``**kwargs`` passes them to that of
    its parent class, whose arguments stand before its own.
    """
    found: dict[str, Parameter] = {}
    for constructor in [vars(owner).get("__init__") for owner in cls.__mro__]:
        if constructor is None:
            continue
        _, *own = parameters(constructor)
        found = {**{one.name: one for one in own if one.kind not in VARIABLE}, **found}
        if all(one.kind is not one.VAR_KEYWORD for one in own):
            break
    return found


def check_arguments(cls: type, given: Collection[str], passed_on: Collection[str] = ()) -> None:
    """Check the names of the arguments with which a constructor is called. Where it has
    ``**kwargs``, any name is taken, unless it is known what they can be, ``passed_on``.

    Raises:
        BadOption: one that it does not have, or one that it needs is missing.
    """
    known = [*arguments(cls), *passed_on]
    if passed_on or not any(one.kind is one.VAR_KEYWORD for one in parameters(cls)):
        for name in given:
            if name not in known:
                raise BadOption(
                    f"{cls.__name__} has no argument {name!r}.{did_you_mean(name, known)} "
                    f"It has: {listing(known, 30)}"
                )
    for one in parameters(cls):  # its parent may get what it needs from the class itself
        if one.default is one.empty and one.kind not in VARIABLE and one.name not in given:
            raise BadOption(f"{cls.__name__} needs {one.name}")
