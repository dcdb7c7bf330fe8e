"""Hops keeps its word: right answers, every name once on each side, splits by number of arrows."""

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
