"""Splits of built-in data sets, also where chance would repeat texts."""

from typing import Any

import pytest

from tfzoo.base.registry import create, registry
from tfzoo.errors import BadOption

FEW: dict[str, dict[str, Any]] = {
    "hops": {"names": 3, "hops": 1, "train": 40, "val": 8, "test": 8, "each": 4},
    "listops": {"depth": 2, "arguments": 2, "min_length": 3, "max_length": 6, "train": 300},
    "numbers": {"train": 2000},
    "recall": {"distance": 1, "min_length": 3, "max_length": 3, "train": 300, "longer": 20},
}
FEW["listops"] |= {"val": 50, "test": 50}
FEW["recall"] |= {"val": 50, "test": 50}


def splits(name, seed=0, **options):
    return create("dataset", {"name": name, **options}).splits(seed)


@pytest.mark.parametrize("name", FEW)
def test_what_is_scored_is_in_no_other_split_and_not_twice(name):
    """Translations on neither side."""
    found = splits(name, **FEW[name])
    for side in (0, 1) if name == "numbers" else (0,):
        texts = {split: [row[side] for row in rows] for split, rows in found.items()}
        train = texts.pop("train")
        scored = [text for rows in texts.values() for text in rows]
        assert len(set(scored)) == len(scored)
        assert not set(train) & set(scored)


@pytest.mark.parametrize("name", registry("dataset").own_names())
def test_a_split_depends_on_no_other_ones_size(name):
    one, other = (splits(name, train=train) for train in (150, 300))
    assert one["test"] == other["test"]


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("entities", {"words": 51}, "words.*=51 must be.*at most 50"),
        ("follows", {"names": 3, "facts": 3}, "facts.*=3 must be.*under 3"),
        ("reachable", {"names": 3, "arrows": 7}, "arrows.*=7 must be.*at most 6"),
        ("hops", {"hops": 0}, "hops.*=0 must be.*at least 1"),
        ("hops", {"names": 8}, "names.*=8 must be.*over 8"),
        ("listops", {"arguments": 1}, "arguments.*=1 must be.*at least 2"),
        ("numbers", {"train": 99}, "train"),
        ("recall", {"distance": 12}, "min_length.*=12 must be.*over 12"),
        ("recall", {"max_length": 11}, "max_length.*=11 must be.*at least 12"),
    ],
)
def test_options_that_leave_nothing_are_refused(name, options, words):
    with pytest.raises(BadOption, match=words):
        create("dataset", {"name": name, **options})


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("hops", {"names": 3, "hops": 1, "val": 100}, "val cannot get 100 texts.*after 36 the"),
        (
            "listops",
            {"depth": 2, "arguments": 2, "min_length": 3, "max_length": 5},
            "test cannot get 1,000 expressions of over 3 and under 5 tokens; after .* had",
        ),
    ],
)
def test_too_few_texts_are_an_error_and_no_endless_loop(name, options, words):
    with pytest.raises(BadOption, match=words):
        splits(name, **options)
