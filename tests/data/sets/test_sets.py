"""Built-in data sets keep their word, and their splits stay apart where chance repeats texts."""

import statistics
from typing import Any

import pytest

from tfzoo.base.registry import create, registry
from tfzoo.data.sets.entities import FORMS, KINDS, Entities
from tfzoo.data.sets.follows import Follows
from tfzoo.data.sets.listops import ListOps
from tfzoo.data.sets.reachable import Reachable
from tfzoo.data.table import parts
from tfzoo.errors import BadOption
from tfzoo.tasks.token_classification import spans_of

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
        ("follows", {"names": 3, "facts": 3}, "facts.*=3 must be.*at most 2"),
        ("reachable", {"names": 3, "arrows": 7}, "arrows.*=7 must be.*at most 6"),
        ("hops", {"names": 8}, "names.*=8 must be.*at least 9"),
        ("listops", {"arguments": 1}, "arguments.*=1 must be.*at least 2"),
        ("numbers", {"train": 99}, "train"),
        ("recall", {"distance": 12}, "min_length.*=12 must be.*at least 13"),
    ],
)
def test_options_that_leave_nothing_are_refused(name, options, words):
    with pytest.raises(BadOption, match=words):
        create("dataset", {"name": name, **options})


SHORT = {"depth": 2, "arguments": 2, "min_length": 3, "max_length": 5}


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("hops", {"names": 3, "hops": 1, "val": 100}, "val cannot get 100 texts.*after 36 the"),
        ("listops", SHORT, "1,000 expressions of over 3 and under 5 tokens; after .* others or"),
    ],
)
def test_too_few_texts_are_an_error_and_no_endless_loop(name, options, words):
    with pytest.raises(BadOption, match=words):
        splits(name, **options)


def test_the_answer_is_what_following_the_arrows_gives():
    made = splits("hops", train=4000)
    for name, rows in made.items():
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
    assert [*made] == ["train", "val", "test", "hops1", "hops2", "hops3", "hops4"]


@pytest.mark.parametrize("steps", [1, 3])
def test_the_labels_are_the_names_that_a_walk_comes_to(steps):
    for text, labels in Reachable(steps=steps, train=200).splits(0)["train"]:
        question, *pairs = text.split(" ")
        arrows = [tuple(pair.split(">")) for pair in pairs]
        assert len(set(arrows)) == 8
        ends, seen = {question[0]}, set()
        for _ in range(steps):
            ends = {end for start, end in arrows if start in ends}
            seen |= ends
        assert labels == ",".join(sorted(seen - {question[0]}))


def leads(start, end, facts):
    """Whether a chain of facts leads from one name to another, found by walking."""
    reached = {start}
    for _ in facts:
        reached |= {fact[2] for fact in facts if fact[0] in reached}
    return end in reached - {start}


def test_the_label_is_what_a_walk_through_the_premise_finds():
    made = Follows(train=900)
    rows = made.splits(0)["train"]
    for pair, label in rows:
        premise, hypothesis = parts(pair)
        facts, (a, b) = premise.split(" "), hypothesis.split(">")
        assert len(set(facts)) == 7
        found = [leads(a, b, facts), leads(b, a, facts)]
        assert found == [label == "entailment", label == "contradiction"]
    shares = [sum(label == one for _, label in rows) / len(rows) for one in made.labels]
    assert min(shares) > 0.25


def test_spans_stand_where_a_form_has_names():
    made = Entities(train=500)
    for text, cell in made.splits(0)["train"]:
        words, labels = text.split(" "), cell.split(" ")
        assert len(words) == len(labels)
        assert set(labels) <= set(made.labels)
        spans = spans_of(labels)
        assert all(1 <= span.end - span.start <= 3 for span in spans)
        for span in reversed(spans):
            assert set(words[span.start : span.end]) <= set(made.known)
            words[span.start : span.end] = [span.label]
        assert " ".join("O" if word in made.known else word for word in words) in FORMS


def test_a_word_of_names_is_of_every_kind():
    made = Entities(words=5, train=500)
    seen = {
        (word, label.rpartition("-")[2])
        for text, cell in made.splits(1)["train"]
        for word, label in zip(text.split(" "), cell.split(" "), strict=True)
        if word in made.known
    }
    assert seen == {(word, kind) for word in made.known for kind in (*KINDS, "O")}


def test_the_answer_is_the_letter_so_many_places_before_the_mark():
    made = splits("recall", train=4000)
    sizes = {"train": 4000, "val": 1000, "test": 1000, "x2": 500, "x4": 500, "x8": 500}
    assert {name: len(rows) for name, rows in made.items()} == sizes
    for text, answer in (row for rows in made.values() for row in rows):
        tokens = text.split(" ")
        [mark] = [place for place, token in enumerate(tokens) if token.startswith("<")]
        back = int(tokens[mark][1:])
        assert back <= mark
        assert tokens[mark - back] == answer


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


def test_every_answer_is_right():
    for rows in splits("listops", train=4000).values():
        for text, answer in rows:
            assert str(value(text)[0]) == answer


def test_the_published_difficulty_has_its_lengths():
    sizes = {"depth": 10, "arguments": 10, "min_length": 500, "max_length": 2000}
    rows = ListOps(**sizes, train=20, val=2, test=2).splits(0)["train"]
    assert all(500 < len(text.split(" ")) < 2000 for text, _ in rows)
    assert max(value(text)[1] for text, _ in rows) == 9
