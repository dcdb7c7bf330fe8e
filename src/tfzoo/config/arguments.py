"""A command line, taken apart into words and options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

FLAGS = ("help", "print_config", "trust")


@dataclass
class Arguments:
    """A command line taken apart: words, options in their order, and the command's own flags."""

    words: list[str] = field(default_factory=list)
    options: list[tuple[str, str | None]] = field(default_factory=list)

    def take(self, name: str) -> str | None:
        """The value of a command's own option, removed; ``""`` for a flag without one, None where
        it is not given.
        """
        found = [value or "" for key, value in self.options if key == name]
        self.options = [option for option in self.options if option[0] != name]
        return found[-1] if found else None


def parse_arguments(args: Sequence[str], flags: Sequence[str] = ()) -> Arguments:
    """Take a command line apart: ``--key value``, ``--key=value``, and a bare ``--key`` at the end
    or before another option.
    """
    result, rest = Arguments(), list(args)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--"):
            result.words.append(word)
        elif "=" in word:
            key, _, value = word[2:].partition("=")
            result.options.append((key, value))
        else:
            bare = word[2:] in flags or not rest or rest[0].startswith("--")
            result.options.append((word[2:], None if bare else rest.pop(0)))
    return result
