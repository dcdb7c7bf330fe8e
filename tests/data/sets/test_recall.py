"""Recall keeps its word: the place relative to the mark decides, and nothing else."""

from collections import Counter

import pytest

from tfzoo.data.sets.recall import LETTERS, Recall


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


def test_longer_splits_have_longer_texts_and_the_same_distances(splits):
    for name, times in {"train": 1, "test": 1, "x2": 2, "x4": 4, "x8": 8}.items():
        lengths = [len(text.split(" ")) for text, _ in splits[name]]
        assert 12 * times <= min(lengths) < 14 * times
        assert 22 * times < max(lengths) <= 24 * times
        assert {places(text)[1] for text, _ in splits[name]} == set(range(1, 9))


def test_no_absolute_place_and_no_letter_is_the_answer_more_often_than_others():
    rows = Recall(distance=2, min_length=6, max_length=6, train=20_000).splits(0)["train"]
    marks = Counter(places(text) for text, _ in rows)
    for back in (1, 2):
        expected = 10_000 / (6 - back)
        for mark in range(back, 6):
            assert abs(marks[mark, back] - expected) < 5 * expected**0.5
    answers = Counter(answer for _, answer in rows)
    assert all(abs(answers[letter] - 2000) < 250 for letter in LETTERS)


def test_the_letter_that_is_most_frequent_in_a_text_is_rarely_the_answer(splits):
    baselines = Recall().baselines(splits["train"], splits["test"])
    assert 0.1 < baselines["frequent letter"] < 0.3
    assert Recall().baselines([], [("a b a <1", "a"), ("a <1 b b", "a")]) == {
        "frequent letter": 0.5
    }
