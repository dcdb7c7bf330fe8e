"""Patterns of names, by which a recipe chooses parts of a model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from tfzoo.errors import BadOption, did_you_mean, listing


def matches(name: str, patterns: Iterable[str], whole: bool = False) -> bool:
    """Whether a dotted name, from any of its words on, matches a pattern of :mod:`fnmatch`: up to
    its end if ``whole``, otherwise also a module that it lies in.

    >>> matches("decoder.layers.3.self_attention.inner.query.weight", ["query"])
    True
    >>> matches("decoder.layers.3.norm.weight", ["layers.[0-2]", "embedding"])
    False
    """
    end = "" if whole else "*"
    return any(fnmatchcase(f".{name}.", f"*.{pattern}.{end}") for pattern in patterns)


def check(key: str, patterns: Sequence[str] | None, names: Sequence[str]) -> None:
    """Check that each pattern of an option matches one of the names of parameters.

    Raises:
        BadOption: one does not; the message names the modules there are.
    """
    for pattern in patterns or ():
        if not any(matches(name, [pattern]) for name in names):
            words = dict.fromkeys(word for name in names for word in name.split("."))
            known = [word for word in words if not word.isdigit()]
            raise BadOption(
                f"{key}: no parameter's name has {pattern!r}.{did_you_mean(pattern, known)} "
                f"Names are made of: {listing(known, 20)}"
            )
