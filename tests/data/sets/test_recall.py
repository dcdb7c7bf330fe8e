"""Recall keeps its word: the place relative to the mark decides, and nothing else."""

import pytest

from tfzoo.data.sets.recall import Recall


@pytest.fixture(scope="module")
def splits():
    return Recall(train=4000).splits(seed=0)


def places(text):
    """Where the mark stands, and how far back it points."""
    [mark] = [place for place, token in enumerate(text.split(" ")) if token.startswith("<")]
    return mark, int(text.split(" ")[mark][1:])


def test_the_answer_is_the_letter_so_many_places_before_the_mark(splits):
    assert {name: len(rows) for name, rows in splits.items()} == {
        "train": 4000,
        "val": 1000,
        "test": 1000,
        "x2": 500,
        "x4": 500,
        "x8": 500,
    }
    for text, answer in (row for rows in splits.values() for row in rows):
        mark, back = places(text)
        assert back <= mark
        assert text.split(" ")[mark - back] == answer
