"""What every tokenizer promises."""

# ruff: noqa: D103  # a promise is named after what it promises

from __future__ import annotations

from typing import Any

from tfzoo.registry import Entry
from tfzoo.testing.promise import Violation, promise
from tfzoo.testing.samples import fresh

LINES = [
    f"a small cat number {n} sat on mat number {n % 7}, and the dog saw it." for n in range(300)
]
NEW = ["the cat saw a dog", "mat 12, cat 7.", "", "dog"]
FIRST = 4
"""Ids below are padding, unknown, begin and end."""


def trained(entry: Entry) -> Any:
    """A tokenizer that knows LINES."""
    tokenizer = fresh(entry)
    tokenizer.train(LINES)
    return tokenizer


@promise("tokenizer")
def decoding_gives_back_what_was_encoded(entry: Entry) -> None:
    tokenizer = trained(entry)
    for text, back in zip(NEW, tokenizer.decode(tokenizer.encode(NEW)), strict=True):
        if text != back:
            raise Violation(f"{text!r} comes back as {back!r}")


@promise("tokenizer")
def ids_are_in_the_vocabulary_and_leave_out_the_special_ones(entry: Entry) -> None:
    tokenizer = trained(entry)
    for text, ids in zip(NEW, tokenizer.encode(NEW), strict=True):
        if not all(FIRST <= one < len(tokenizer) for one in ids):
            raise Violation(
                f"{text!r} is encoded as {ids}, with a vocabulary of {len(tokenizer)} of which the first {FIRST} are special"
            )
    padded = [[2, *ids, 3, 0, 0] for ids in tokenizer.encode(NEW)]
    if tokenizer.decode(padded) != NEW:
        raise Violation("special ids are not left out in decoding")


@promise("tokenizer")
def the_state_restores_it(entry: Entry) -> None:
    tokenizer, other = trained(entry), fresh(entry)
    other.restore(tokenizer.state())
    if not isinstance(tokenizer.state(), str):
        raise Violation("state() is not a string")
    if other.encode(NEW) != tokenizer.encode(NEW) or len(other) != len(tokenizer):
        raise Violation("a restored tokenizer encodes otherwise")


@promise("tokenizer")
def training_twice_gives_the_same(entry: Entry) -> None:
    if trained(entry).encode(NEW) != trained(entry).encode(NEW):
        raise Violation("two trainings on the same lines encode otherwise")
