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
    """A parsed command line: positional arguments, and options in their order."""

    positional: list[str] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)

    def pop(self, name: str) -> str | None:
        """Remove an option of the command itself and return its last value: ``""`` if it was given
        without a value, None if it was not given.
        """
        found = [option.text or "" for option in self.options if option.key == name]
        self.options = [option for option in self.options if option.key != name]
        return found[-1] if found else None


def parse_arguments(args: Sequence[str], flags: Sequence[str] = ()) -> Arguments:
    """Parse ``--key value``, ``--key=value``, and ``--key`` without a value: at the end, before
    another option, or if it is one of ``flags``.

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
        if not equals and key not in flags and rest and not rest[0].startswith("--"):
            text = rest.pop(0)
        name, adds = key.removesuffix("+"), key.endswith("+")
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
