"""Contracts of every tokenizer."""

from __future__ import annotations

from typing import Any

from tfzoo.base.registry import Entry
from tfzoo.base.special_ids import SpecialIds
from tfzoo.testing.contract import Violation, contract
from tfzoo.testing.samples import build

LINES = [
    f"a small cat number {n} sat on mat number {n % 7}, and the dog saw it." for n in range(300)
]
NEW = ["the cat saw a dog", "mat 12, cat 7.", "", "dog"]


def trained(entry: Entry) -> Any:
    """A tokenizer that knows LINES."""
    tokenizer = build(entry)
    tokenizer.train(LINES)
    return tokenizer


@contract("tokenizer")
def decoding_gives_back_what_was_encoded(entry: Entry) -> None:
    """``decode`` gives back the text that ``encode`` got."""
    tokenizer = trained(entry)
    for text, back in zip(NEW, tokenizer.decode(tokenizer.encode(NEW)), strict=True):
        if text != back:
            raise Violation(f"{text!r} comes back as {back!r}")


@contract("tokenizer")
def ids_are_in_the_vocabulary_and_leave_out_the_special_ones(entry: Entry) -> None:
    """``encode`` gives ids of the vocabulary, none of ``special``; ``decode`` drops those."""
    tokenizer = trained(entry)
    special = getattr(tokenizer, "special", None)
    if not isinstance(special, SpecialIds) or not max(special.every) < len(tokenizer):
        raise Violation(f"special is {special}: a tfzoo.SpecialIds of ids of the vocabulary")
    for text, ids in zip(NEW, tokenizer.encode(NEW), strict=True):
        if not all(0 <= one < len(tokenizer) and one not in special.every for one in ids):
            raise Violation(
                f"{text!r} is encoded as {ids}, with a vocabulary of {len(tokenizer)} "
                f"of which {sorted(special.every)} are special"
            )
    padded = [[special.bos, *ids, special.eos, special.fill] for ids in tokenizer.encode(NEW)]
    if tokenizer.decode(padded) != NEW:
        raise Violation("special ids are not left out in decoding")


@contract("tokenizer")
def the_state_restores_it(entry: Entry) -> None:
    """``state`` is a string from which ``restore`` makes a tokenizer that encodes the same, as does
    one that is trained on the same lines.
    """
    tokenizer, other = trained(entry), build(entry)
    other.restore(tokenizer.state())
    if not isinstance(tokenizer.state(), str):
        raise Violation("state() is not a string")
    for again in (other, trained(entry)):
        if again.encode(NEW) != tokenizer.encode(NEW) or len(again) != len(tokenizer):
            raise Violation("a tokenizer that is restored or trained again encodes otherwise")
