"""Hops keeps its word: right answers, every name once on each side, splits by number of arrows."""

from collections import Counter

import pytest

from tfzoo.data.sets.hops import Hops


@pytest.fixture(scope="module")
def splits():
    return Hops(train=4000).splits(seed=0)


def test_the_answer_is_what_following_the_arrows_gives(splits):
    for name, rows in splits.items():
        for text, answer in rows:
            question, *pairs = text.split(" ")
            leads = dict(pair.split(">") for pair in pairs)
            found, arrows = question[0], question.count(">")
            for _ in range(arrows):
                found = leads[found]
            assert found == answer
            assert question == f"{question[0]}{'>' * arrows}?"
            assert len(pairs) == len(leads) == len(set(leads.values())) == 10
            assert 1 <= arrows <= 4
            assert not name.startswith("hops") or name == f"hops{arrows}"
    assert [*splits] == ["train", "val", "test", "hops1", "hops2", "hops3", "hops4"]


def test_names_arrows_and_places_are_equally_often(splits):
    rows = splits["train"]
    for counts in (
        Counter(answer for _, answer in rows),
        Counter(text[0] for text, _ in rows),
        Counter(
            text.split(" ").index(next(p for p in text.split(" ")[1:] if p[0] == text[0]))
            for text, _ in rows
        ),
    ):
        assert len(counts) == 10
        assert all(abs(count - 400) < 100 for count in counts.values())
    arrows = Counter(text.split(" ")[0].count(">") for text, _ in rows)
    assert all(abs(arrows[number] - 1000) < 140 for number in range(1, 5))


def test_one_hop_answers_one_question_of_four(splits):
    assert abs(Hops().baselines([], splits["test"])["one hop"] - 0.25) < 0.06
    assert Hops().baselines([], splits["hops1"]) == {"one hop": 1.0}
    assert Hops().baselines([], splits["hops3"]) == {"one hop": 0.0}
