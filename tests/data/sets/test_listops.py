"""ListOps keeps its word: right answers, the published grammar, splits apart."""

import statistics

import pytest

from tfzoo.data.sets.listops import ListOps

FUNCTIONS = {
    "[MIN": min,
    "[MAX": max,
    "[MED": lambda values: int(statistics.median(values)),
    "[SM": lambda values: sum(values) % 10,
}


def value(text):
    """Evaluated with a stack; also how deep lists nest, and how many arguments each has."""
    stack = [("", [])]
    deepest, counts = 0, []
    for token in text.split(" "):
        if token in FUNCTIONS:
            stack.append((token, []))
            deepest = max(deepest, len(stack) - 1)
        elif token == "]":
            operator, values = stack.pop()
            counts.append(len(values))
            stack[-1][1].append(FUNCTIONS[operator](values))
        else:
            stack[-1][1].append(int(token))
    [(_, [result])] = stack
    return result, deepest, counts


@pytest.fixture(scope="module")
def splits():
    return ListOps(train=4000).splits(seed=0)


def test_every_answer_is_right(splits):
    for rows in splits.values():
        for text, answer in rows:
            assert str(value(text)[0]) == answer


def test_the_published_difficulty_has_its_lengths():
    rows = ListOps(
        depth=10, arguments=10, min_length=500, max_length=2000, train=20, val=2, test=2
    ).splits(0)["train"]
    assert all(500 < len(text.split(" ")) < 2000 for text, _ in rows)
    assert max(value(text)[1] for text, _ in rows) == 9
