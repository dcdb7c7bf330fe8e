"""Split a command line into positional arguments and options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

FLAGS = ("help", "print_config", "trust")
"""Options that take no value."""


@dataclass
class Arguments:
    """A parsed command line: positional arguments, and options as ``(key, value)`` in their order.
    The value of an option that was given without one is None.
    """

    positional: list[str] = field(default_factory=list)
    options: list[tuple[str, str | None]] = field(default_factory=list)

    def pop(self, name: str) -> str | None:
        """Remove an option of the command itself and return its last value: ``""`` if it was given
        without a value, None if it was not given.
        """
        found = [value or "" for key, value in self.options if key == name]
        self.options = [option for option in self.options if option[0] != name]
        return found[-1] if found else None


def parse_arguments(args: Sequence[str], flags: Sequence[str] = ()) -> Arguments:
    """Parse ``--key value``, ``--key=value``, and ``--key`` without a value: at the end, before
    another option, or if it is one of ``flags``.
    """
    result, rest = Arguments(), list(args)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--"):
            result.positional.append(word)
        elif "=" in word:
            key, _, value = word[2:].partition("=")
            result.options.append((key, value))
        else:
            has_value = word[2:] not in flags and rest and not rest[0].startswith("--")
            result.options.append((word[2:], rest.pop(0) if has_value else None))
    return result
