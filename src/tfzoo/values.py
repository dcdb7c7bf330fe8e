"""Values of options: plain types, converted from what YAML and the command line deliver."""

from __future__ import annotations

import types
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any, Literal, Union, get_args, get_origin

from tfzoo.errors import BadOption

PLAIN = (bool, int, float, str, type(None))


@dataclass(frozen=True)
class Option:
    """One keyword of a component that a recipe may set."""

    annotation: Any
    default: Any

    def convert(self, value: Any) -> Any:
        """``value`` converted to the annotated type.

        YAML reads ``1e-4`` as a string and ``no`` as False; a command line has only strings.

        Raises:
            ValueError: no conversion exists, or the number is not finite.
        """
        converted = convert(value, self.annotation)
        if isinstance(converted, float) and not isfinite(converted):
            raise ValueError(f"{value} is not a finite number")
        return converted

    def __str__(self) -> str:
        return f"{type_name(self.annotation)} = {self.default!r}"


def convert(value: Any, annotation: Any) -> Any:
    """``value`` converted to ``annotation``: bool, int, float, str, Literal, None, or a union.

    Raises:
        ValueError: no conversion exists.
    """
    choices = members(annotation)
    for choice in choices:  # an exact match first: in `int | str`, "3" is a string and 3 a number
        if (type(choice) is type(value) and choice == value) or (
            isinstance(choice, type) and type(value) is choice
        ):
            return value
    for choice in choices:
        try:
            return convert_one(value, choice)
        except (TypeError, ValueError, OverflowError):
            continue
    raise ValueError(f"{value!r} is not {type_name(annotation)}")


def convert_one(value: Any, choice: Any) -> Any:
    """``value`` converted to one type or literal; ValueError where it cannot be."""
    text = str(value).strip().lower()
    if choice is type(None) and text in ("none", "null", "~"):
        return None
    if choice is bool and text in ("true", "yes", "on", "false", "no", "off"):
        return text in ("true", "yes", "on")
    if choice is int and not isinstance(value, bool) and float(value) == int(float(value)):
        return (
            int(value)
            if isinstance(value, str) and value.strip().lstrip("+-").isdigit()
            else int(float(value))
        )
    if choice is float and not isinstance(value, bool):
        return float(value)
    if choice is str and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if not isinstance(choice, type) and (
        value == choice
        or (value is False and choice in ("no", "off"))
        or (value is True and choice in ("yes", "on"))
    ):
        return choice
    raise ValueError


def positive(component: str, **options: float | None) -> None:
    """Raise BadOption unless each of these options is a number over 0, or None."""
    for name, value in options.items():
        if value is not None and not value > 0:
            raise BadOption(f"{component}, option {name!r}: {value} must be over 0")


def check_range(
    key: str,
    value: Any,
    *,
    gt: float | None = None,
    ge: float | None = None,
    lt: float | None = None,
    le: float | None = None,
    whole: bool = False,
) -> None:
    """Raise BadOption unless a value is a finite number (``whole``: an int) in a range: greater
    than, greater or equal, less than, less or equal.

    >>> check_range("optim.lr", 1e-3, gt=0)
    >>> check_range("optim.lr", -1, gt=0)
    Traceback (most recent call last):
        ...
    tfzoo.errors.BadOption: optim.lr=-1 must be a finite number over 0
    """
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
        wanted = " and ".join(f"{word} {x:g}" for word, x in bounds.items() if x is not None)
        what = f"a {'whole' if whole else 'finite'} number {wanted}".rstrip()
        raise BadOption(f"{key}={value} must be {what}")


def members(annotation: Any) -> tuple[Any, ...]:
    """The types and literal values of an annotation."""
    if get_origin(annotation) in (Union, types.UnionType):
        return tuple(choice for part in get_args(annotation) for choice in members(part))
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return (annotation,)


def is_plain(annotation: Any) -> bool:
    """Whether a recipe can hold values of this annotation."""
    return all(
        choice in PLAIN if isinstance(choice, type) else isinstance(choice, PLAIN)
        for choice in members(annotation)
    )


def type_name(annotation: Any) -> str:
    """How a message names a type: ``float``, ``'pre' or 'post'``, ``int or None``."""
    return " or ".join(
        ("None" if choice is type(None) else choice.__name__)
        if isinstance(choice, type)
        else repr(choice)
        for choice in members(annotation)
    )
