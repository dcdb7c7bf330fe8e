"""What every built-in data set promises."""

# ruff: noqa: D103  # a promise is named after what it promises

from __future__ import annotations

from functools import cache
from itertools import combinations

from tfzoo.registry import Entry, registry
from tfzoo.testing.promise import Violation, promise
from tfzoo.testing.samples import fresh

Splits = dict[str, list[tuple[str, str]]]


@cache
def drawn(name: str, seed: int) -> Splits:
    """The pairs of each split; drawn once."""
    splits: Splits = fresh(registry("dataset").entry(name)).splits(seed)
    return splits


@promise("dataset")
def there_are_pairs_to_train_on_to_validate_on_and_to_test_on(entry: Entry) -> None:
    splits = drawn(entry.name, 1)
    for split in ("train", "val", "test"):
        if not splits.get(split):
            raise Violation(f"there is no split {split!r}")
    for split, pairs in splits.items():
        for pair in pairs:
            if len(pair) != 2 or not all(
                isinstance(text, str) and text.strip() and "\n" not in text for text in pair
            ):
                raise Violation(f"{split} holds {pair!r}, which is no pair of lines")
    made = fresh(entry)
    if not hasattr(made, "labels") and len(getattr(made, "languages", ())) != 2:
        raise Violation("there are neither labels nor a pair of languages")
    said = {label for pairs in splits.values() for _, label in pairs}
    if hasattr(made, "labels") and said != set(made.labels):
        raise Violation(f"labels are {sorted(said)}, not {sorted(made.labels)}")


@promise("dataset")
def no_sentence_is_in_two_splits(entry: Entry) -> None:
    sources = {
        split: {source for source, _ in pairs} for split, pairs in drawn(entry.name, 1).items()
    }
    for one, other in combinations(sources, 2):
        if shared := sources[one] & sources[other]:
            raise Violation(
                f"{one} and {other} share {len(shared)} sentences, such as {min(shared)!r}"
            )


@promise("dataset")
def all_follows_from_the_seed(entry: Entry) -> None:
    if fresh(entry).splits(1) != drawn(entry.name, 1):
        raise Violation("one seed gives two data sets")
    if drawn(entry.name, 2)["train"] == drawn(entry.name, 1)["train"]:
        raise Violation("two seeds give one data set")
