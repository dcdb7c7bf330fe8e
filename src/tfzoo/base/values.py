"""What constructors take: signatures; values of YAML and the command line, converted to the types
of arguments; and their limits.
"""

import inspect
import os
import re
import types
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from functools import cache
from inspect import Parameter
from math import inf, isfinite
from typing import Annotated, Any, Literal, Self, Union, get_args, get_origin, get_type_hints

from tfzoo.errors import BadOption, BadRecipe, did_you_mean, listing

PLAIN = (bool, int, float, str, type(None))
DEPTH = 32
"""The most nested levels of a recipe or checkpoint."""
LAYERS = 1000
"""The most layers of a model."""
WIDTH = 10_000_000
"""The largest number in the section ``model`` besides ``layers``."""
COUNTLESS = frozenset({"base"})
"""Numbers of a model that count nothing and take no memory, such as the base of rotary angles."""
NUMBER = 2**64
"""The largest number in a recipe."""


def convert(value: Any, hint: Any) -> Any:
    """A value converted to the type ``hint``: bool, int, float, str, Literal, None, timedelta
    (``DD:HH:MM:SS``), a list, tuple or dict of them, a union, or Any.

    YAML reads ``1e-4`` as a string and ``no`` as False; a command line has only strings.

    Raises:
        ValueError: no conversion exists, or the number is not finite; ``must be int, not 'two'``.
    """
    choices = members(hint)
    for choice in choices:
        origin, inner = get_origin(choice), get_args(choice)
        if choice in (Any, Parameter.empty):
            return value
        if origin is list and isinstance(value, list | tuple):
            return [convert(one, inner[0]) for one in value]
        if origin is tuple and isinstance(value, list | tuple) and len(value) == len(inner):
            return [convert(one, kind) for one, kind in zip(value, inner, strict=True)]
        if origin is dict and isinstance(value, Mapping):
            return {convert(key, inner[0]): convert(one, inner[1]) for key, one in value.items()}
    # an exact match first: in `int | str`, "3" is a string and 3 a number
    exact = [
        choice
        for choice in choices
        if choice is type(value) or (type(choice) is type(value) and choice == value)
    ]
    for choice in exact or choices:
        try:
            found = convert_one(value, choice)
        except (TypeError, ValueError, OverflowError):
            continue
        if isinstance(found, float) and not isfinite(found):
            raise ValueError(f"must be a finite number, not {value}")
        return found
    raise ValueError(f"must be {type_name(hint)}, not {value!r}")


def convert_one(value: Any, choice: Any) -> Any:
    """``value`` converted to one type or literal; ValueError if it cannot be."""
    if choice is type(value):
        return value
    text = str(value).strip().lower()
    if choice is type(None) and text in ("none", "null", "~"):
        return None
    if choice is bool and text in ("true", "yes", "on", "false", "no", "off"):
        return text in ("true", "yes", "on")
    if choice is int and not isinstance(value, bool) and float(value) == int(float(value)):
        is_whole = isinstance(value, str) and value.strip().lstrip("+-").isdigit()
        return int(value) if is_whole else int(float(value))
    if choice is float and not isinstance(value, bool):
        return float(value)
    if choice is timedelta and isinstance(value, str):
        units = ("seconds", "minutes", "hours", "days")
        counts = reversed([int(part) for part in value.split(":")])
        return timedelta(**dict(zip(units, counts, strict=False)))
    if choice is str and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if not isinstance(choice, type) and (
        value == choice
        or (value is False and choice in ("no", "off"))
        or (value is True and choice in ("yes", "on"))
    ):
        return choice
    raise ValueError


def check_range(
    key: str,
    value: Any,
    *,
    gt: float | None = None,
    ge: float | None = None,
    lt: float | None = None,
    le: float | None = None,
    whole: bool = False,
    optional: bool = False,
) -> None:
    """Raise BadOption unless a value is a finite number (``whole``: an int) in a range: greater
    than, greater or equal, less than, less or equal. ``optional``: None is allowed too.

    >>> check_range("optim.lr", 1e-3, gt=0)
    >>> check_range("optim.lr", -1, gt=0)
    Traceback (most recent call last):
        ...
    tfzoo.errors.BadOption: optim.lr=-1 must be a finite number over 0
    """
    if value is None and optional:
        return
    kind = int if whole else (int, float)
    number = isinstance(value, kind) and not isinstance(value, bool) and -inf < value < inf
    if not (
        number
        and (gt is None or value > gt)
        and (ge is None or value >= ge)
        and (lt is None or value < lt)
        and (le is None or value <= le)
    ):
        bounds = {"over": gt, "at least": ge, "under": lt, "at most": le}
        shown = {
            word: f"{x:,}" if isinstance(x, int) and float(f"{x:g}") != x else f"{x:g}"
            for word, x in bounds.items()
            if x is not None
        }
        wanted = " and ".join(f"{word} {text}" for word, text in shown.items())
        what = f"a {'whole' if whole else 'finite'} number {wanted}".rstrip()
        raise BadOption(f"={value!r} must be {what}", key=key)


def check_number(path: tuple[str, ...], value: Any, where: str, layers: int = LAYERS) -> None:
    """Refuse a number with which building a model would take hours or all memory. ``path`` are its
    keys, ``layers`` is the largest number of layers.
    """
    if not isinstance(value, int | float) or isinstance(value, bool):
        return
    in_model = path[0] == "model" and len(path) > 1 and path[-1] not in COUNTLESS
    most = NUMBER if not in_model else layers if path[-1] == "layers" else WIDTH
    if most < abs(value) < inf:
        key, shown = ".".join(path), min(max(value, -1e300), 1e300)
        raise BadRecipe(
            f"{where if where == f'--{key}' else f'{where}: {key}'} is {shown:.6g}; the most "
            f"is {most:,}"
        )


def is_text(value: Any) -> bool:
    """False for a string that no file can be named by: with a zero, or half of a character."""
    try:
        return b"\0" not in os.fsencode(value) if isinstance(value, str) else True
    except UnicodeEncodeError:
        return False


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the keys and value of each leaf of a tree."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from leaves(inner, (*path, str(key)))
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from leaves(inner, (*path, str(index)))
    elif path:
        yield path, value


def map_leaves(function: Callable[[Any], Any], value: Any) -> Any:
    """A tree with what a function returns in the place of each leaf, and lists for tuples."""
    if isinstance(value, Mapping):
        return {key: map_leaves(function, inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [map_leaves(function, inner) for inner in value]
    return function(value)


def readable(size: float) -> str:
    """A number of bytes: ``"1.2 MB"``."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:,.1f} {unit}"


def members(hint: Any) -> tuple[Any, ...]:
    """The types and literal values of an annotation."""
    if get_origin(hint) is Annotated:
        return members(get_args(hint)[0])
    if get_origin(hint) in (Union, types.UnionType):
        return tuple(choice for one in get_args(hint) for choice in members(one))
    if get_origin(hint) is Literal:
        return get_args(hint)
    return (hint,)


def is_plain(hint: Any) -> bool:
    """Whether a recipe can hold values of this type."""
    return all(
        choice in PLAIN if isinstance(choice, type) else isinstance(choice, PLAIN)
        for choice in members(hint)
    )


def type_name(hint: Any) -> str:
    """How a message names a type: ``float``, ``'pre' or 'post'``, ``int or None``."""
    names = " or ".join(
        ("None" if choice is type(None) else choice.__name__)
        if isinstance(choice, type) and not get_args(choice)
        else repr(choice)
        for choice in members(hint)
    )
    modules = r"\b(?:typing|datetime|pathlib|collections\.abc)\.|\b(?:lightning|torch)(?:\.\w+)*\."
    return re.sub(rf"(?:{modules})(?=\w)", "", names)


# Signatures ---------------------------------------------------------------------------------------

VARIADIC = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def parameters(function: Callable[..., Any]) -> list[Parameter]:
    """The parameters of a function, of a method with its ``self``. Annotations are types, or all
    ``Any`` where a name in one is not defined when the program runs, as under ``TYPE_CHECKING``.
    """
    hints: dict[str, Any] = {}
    with suppress(NameError):
        hints = get_type_hints(inspect.unwrap(function), include_extras=True)
    return [
        one if one.annotation is one.empty else one.replace(annotation=hints.get(one.name, Any))
        for one in inspect.signature(function).parameters.values()
    ]


@cache
def arguments(called: Callable[..., Any]) -> Mapping[str, Parameter]:
    """What the constructor of a class takes, by name, or a function after its first argument. A
    constructor with ``**kwargs`` passes them to that of its parent class, whose arguments stand
    before its own.
    """
    found: dict[str, Parameter] = {}
    classes = called.__mro__ if isinstance(called, type) else ()
    for constructor in [vars(owner).get("__init__") for owner in classes] or [called]:
        if constructor is None:
            continue
        _, *own = parameters(constructor)
        found = {**{one.name: one for one in own if one.kind not in VARIADIC}, **found}
        if all(one.kind is not one.VAR_KEYWORD for one in own):
            break
    return found


def check_names(
    called: Callable[..., Any], given: Collection[str], passed_on: Collection[str] = ()
) -> None:
    """Raise BadOption for a name that is no argument of a class or a function, nor ``passed_on`` by
    it.
    """
    known = dict.fromkeys([*arguments(called), *passed_on])
    for name in given:
        if name not in known:
            raise BadOption(
                f"{called.__name__} has no argument {name!r}.{did_you_mean(name, known)} "
                f"It has: {listing(known, 30)}"
            )


class Named:
    """Parent of a class that users make: a misspelt name of an argument is a BadOption."""

    def __new__(cls, /, *args: Any, **options: Any) -> Self:
        check_names(cls, options)
        return super().__new__(cls)


def check_arguments(cls: type, given: Collection[str], passed_on: Collection[str] = ()) -> None:
    """Check the names of the arguments with which a constructor is called. Where it has
    ``**kwargs``, any name is taken, unless it is known what they can be, ``passed_on``.
    """
    if passed_on or not any(one.kind is one.VAR_KEYWORD for one in parameters(cls)):
        check_names(cls, given, passed_on)
    for one in parameters(cls):  # its parent may get what it needs from the class itself
        if one.default is one.empty and one.kind not in VARIADIC and one.name not in given:
            raise BadOption(f"{cls.__name__} needs {one.name}")
