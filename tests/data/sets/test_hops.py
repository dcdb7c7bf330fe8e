"""Hops keeps its word: right answers, every name once on each side, splits by number of arrows."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tfzoo.data.sets.hops import Hops
from tfzoo.errors import BadOption

Splits = dict[str, list[tuple[str, str]]]


@pytest.fixture(scope="module")
def splits() -> Splits:
    return Hops(train=4000).splits(seed=0)


def test_the_answer_is_what_following_the_arrows_gives(splits: Splits) -> None:
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


def test_names_arrows_and_places_are_equally_often(splits: Splits) -> None:
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


def test_no_text_is_in_two_splits_or_scored_twice(splits: Splits) -> None:
    scored = [text for name, rows in splits.items() if name != "train" for text, _ in rows]
    assert len(set(scored)) == len(scored)
    assert not {text for text, _ in splits["train"]} & set(scored)


def test_one_hop_answers_one_question_of_four(splits: Splits) -> None:
    assert abs(Hops().baselines([], splits["test"])["one hop"] - 0.25) < 0.06
    assert Hops().baselines([], splits["hops1"]) == {"one hop": 1.0}
    assert Hops().baselines([], splits["hops3"]) == {"one hop": 0.0}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"hops": 0}, "hops.*=0 must be.*at least 1"),
        ({"names": 8}, "names.*=8 must be.*over 8"),
        ({"names": 27}, "names.*=27 must be.*at most 26"),
        ({"each": 0}, "each.*=0 must be.*at least 1"),
    ],
)
def test_options_that_leave_nothing_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(BadOption, match=words):
        Hops(**options)


def test_too_few_texts_are_an_error_and_no_endless_loop() -> None:
    with pytest.raises(BadOption, match=r"dataset 'hops': val cannot get 100 texts.*after 36 the"):
        Hops(names=3, hops=1, val=100).splits(0)
