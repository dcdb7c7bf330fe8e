"""Contracts of every built-in data set."""

from __future__ import annotations

import re
from functools import cache
from itertools import chain, combinations

from tfzoo.base.registry import Entry, registry
from tfzoo.testing.contract import Violation, contract
from tfzoo.testing.samples import build

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
