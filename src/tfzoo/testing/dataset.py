"""Contracts of every built-in data set."""

from __future__ import annotations

import re
from functools import cache
from itertools import combinations

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
    splits = splits_of(entry.name)
    for split in ("train", "val", "test"):
        if not splits.get(split):
            raise Violation(f"there is no split {split!r}")
    for split, pairs in splits.items():
        for pair in pairs:
            if len(pair) != 2 or not all(
                isinstance(text, str) and text.strip() and "\n" not in text for text in pair
            ):
                raise Violation(f"{split} holds {pair!r}, which is no pair of lines")
    made = build(entry)
    if not hasattr(made, "labels") and len(getattr(made, "languages", ())) != 2:
        raise Violation("there are neither labels nor a pair of languages")
    cells = [labels for pairs in splits.values() for _, labels in pairs]
    said = {label for cell in cells for label in re.split("[, ]", cell)}
    if hasattr(made, "labels") and said != set(made.labels):
        raise Violation(f"labels are {sorted(said)}, not {sorted(made.labels)}")


@contract("dataset")
def no_sentence_is_in_two_splits(entry: Entry) -> None:
    """No source is in two splits."""
    sources = {
        split: {source for source, _ in pairs} for split, pairs in splits_of(entry.name).items()
    }
    for one, other in combinations(sources, 2):
        if shared := sources[one] & sources[other]:
            raise Violation(
                f"{one} and {other} share {len(shared)} sentences, such as {min(shared)!r}"
            )


@contract("dataset")
def the_seed_determines_the_data(entry: Entry) -> None:
    """One seed gives one data set, another seed another."""
    few = {"train": 200} if "train" in entry.options else {}
    one, same, other = (build(entry, few).splits(seed) for seed in (1, 1, 2))
    if one != same:
        raise Violation("one seed gives two data sets")
    if one["train"] == other["train"]:
        raise Violation("two seeds give one data set")
