"""Contracts of every tokenizer and of every built-in data set."""

from __future__ import annotations

import re
from functools import cache
from itertools import chain, combinations
from typing import Any

from tfzoo.base.registry import Entry, registry
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


Splits = dict[str, list[tuple[str, str]]]


@cache
def splits_of(name: str) -> Splits:
    """The pairs of each split; drawn once."""
    splits: Splits = build(registry("dataset").entry(name)).splits(1)
    return splits


@contract("dataset")
def there_are_pairs_to_train_on_to_validate_on_and_to_test_on(entry: Entry) -> None:
    """There are splits ``train``, ``val`` and ``test`` of pairs of lines, and labels or a pair of
    languages.
    """
    splits, made = splits_of(entry.name), build(entry)
    for split in ("train", "val", "test"):
        if not splits.get(split):
            raise Violation(f"there is no split {split!r}")
    for pair in chain(*splits.values()):
        if len(pair) != 2 or not all(text.strip() and "\n" not in text for text in pair):
            raise Violation(f"{pair!r} is no pair of lines")
    said = {label for _, labels in chain(*splits.values()) for label in re.split("[, ]", labels)}
    if said != set(made.labels) if hasattr(made, "labels") else len(made.languages) != 2:
        raise Violation("there are neither the labels of the data nor a pair of languages")


@contract("dataset")
def no_sentence_is_in_two_splits(entry: Entry) -> None:
    """No source is in two splits."""
    for one, other in combinations(splits_of(entry.name).items(), 2):
        shared = {source for source, _ in one[1]} & {source for source, _ in other[1]}
        if shared:
            raise Violation(f"{one[0]} and {other[0]} share {min(shared)!r}")


@contract("dataset")
def the_seed_determines_the_data(entry: Entry) -> None:
    """One seed gives one data set, another seed another."""
    few = {"train": 200} if "train" in entry.options else {}
    one, same, other = (build(entry, few).splits(seed) for seed in (1, 1, 2))
    if one != same:
        raise Violation("one seed gives two data sets")
    if one["train"] == other["train"]:
        raise Violation("two seeds give one data set")
