"""Split a command line into positional arguments and options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tfzoo.config.loader import TooLarge, parse_yaml
from tfzoo.errors import BadRecipe

FLAGS = ("help", "print_config", "trust", "dry-run")
"""Options that take no value."""


@dataclass(frozen=True)
class Option:
    """One option of a command line.

    Args:
        key: the dotted key after ``--``, without a ``+`` at its end.
        adds: the key was typed with a ``+`` at its end: the value is appended to a list.
        text: the value as it was typed, None if there is none.
        value: the text as YAML, or the text itself if it is not YAML; True if there is none. Lists
            and mappings are in brackets.
    """

    key: str
    adds: bool
    text: str | None
    value: Any


@dataclass
class Arguments:
    """A parsed command line.

    Args:
        positional: the words that are no options.
        options: the options in their order, except the following.
        configs: the values of ``--config``, None where there is none.
        own: the last value of each option of the command itself that was given, ``""`` if it was
            given without a value.
    """

    positional: list[str] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)
    configs: list[str | None] = field(default_factory=list)
    own: dict[str, str] = field(default_factory=dict)


def parse_arguments(args: Sequence[str], own: Sequence[str] = ()) -> Arguments:
    """Parse ``--key value``, ``--key=value``, and ``--key`` without a value: at the end, before
    another option, or if it is one of :data:`FLAGS`. ``own`` are the options of the command itself.

    Raises:
        BadRecipe: a value that is larger than a recipe may be.
    """
    result, rest = Arguments(), list(args)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--"):
            result.positional.append(word)
            continue
        key, equals, value = word[2:].partition("=")
        text = value if equals else None
        if not equals and key not in FLAGS and rest and not rest[0].startswith("--"):
            text = rest.pop(0)
        name, adds = key.removesuffix("+"), key.endswith("+")
        if name in own:
            result.own[name] = text or ""
        elif name == "config":
            result.configs.append(text)
        else:
            result.options.append(Option(name, adds, text, parse_text(name, text)))
    return result


def parse_text(key: str, text: str | None) -> Any:
    """Parse the text of an option as YAML."""
    if text is None:
        return True
    try:
        value = parse_yaml(text, f"--{key}")
    except TooLarge:
        raise
    except BadRecipe:  # not every text is YAML, such as a path
        return text
    return text if isinstance(value, list | dict) and text[0] not in "[{" else value
