"""What is held out for validation: as many rows as asked, chosen by seed and text alone."""

import random

import pytest

from tfzoo.data.classification import ClassificationData
from tfzoo.data.prepare import chosen, hold_out
from tfzoo.data.table import Text
from tfzoo.errors import BadData


def parts(texts, fraction=0.1, seed=0):
    whole = Text("train", lambda: (("", text, "label") for text in texts))
    split = hold_out({"train": whole}, fraction, seed)
    return tuple([text for text, _ in split[name]] for name in ("val", "train"))


@pytest.mark.parametrize(
    ("rows", "fraction", "wanted"),
    [
        *[(rows, 0.1, rows // 10) for rows in (20, 200, 300, 2000)],
        *[(2, 0.1, 1), (4, 0.1, 1), (25, 0.1, 3), (20, 1e-6, 1), (20, 1 - 1e-6, 19)],
    ],
)
def test_different_texts_are_divided_exactly(rows, fraction, wanted):
    texts = [f"text {number}" for number in range(rows)]
    for seed in range(3):
        held_out, kept = parts(texts, fraction, seed)
        assert len(held_out) == wanted
        assert sorted(held_out + kept) == sorted(texts)


def test_the_choice_depends_on_seed_and_texts_and_not_on_their_order():
    texts = [f"text {number % 150}" for number in range(200)]
    held_out, _ = parts(texts)
    mixed = random.Random(0).sample(texts, len(texts))
    assert sorted(parts(mixed)[0]) == sorted(held_out)
    assert sorted(parts(texts, seed=1)[0]) != sorted(held_out)


def test_equal_texts_stay_together_and_neither_side_is_empty():
    draw = random.Random(0)
    for _ in range(300):
        texts = [str(min(int(draw.paretovariate(1)), 30)) for _ in range(draw.randint(2, 60))]
        if len(set(texts)) > 1:
            held_out, kept = parts(texts, fraction=0.3)
            assert held_out
            assert kept
            assert not set(held_out) & set(kept)


@pytest.mark.parametrize(
    ("counts", "wanted", "taken"),
    [
        ([9, 1, 1, 1], 2, [1, 2]),  # one that is too large is passed over
        ([9, 2, 9], 3, [1]),
        ([5, 2, 2], 1, [1]),  # some group is taken
        ([1, 3], 4, [1]),  # and not all
    ],
)
def test_groups_are_taken_whole(counts, wanted, taken):
    assert chosen(counts, wanted).nonzero()[0].tolist() == taken


@pytest.mark.parametrize(
    ("texts", "said"), [([], "0 rows, 0"), (["a"], "1 rows, 1"), (["a"] * 20, "20 rows, 1")]
)
def test_what_cannot_be_divided_is_told(texts, said):
    rows = [(text, "ab"[row % 2]) for row, text in enumerate(texts)]
    with pytest.raises(BadData, match=rf"^data\.train: {said} diff.*or give data\.val$"):
        ClassificationData(train=rows, tokenizer="bytes").prepare_data()
