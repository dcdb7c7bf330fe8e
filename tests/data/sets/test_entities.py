"""Entities keeps its word: labels are in BIO, and words of names say nothing."""

from tfzoo.data.sets.entities import FORMS, KINDS, Entities
from tfzoo.tasks.token_classification import spans_of


def test_spans_stand_where_a_form_has_names():
    made = Entities(train=500)
    for text, cell in made.splits(0)["train"]:
        words, labels = text.split(" "), cell.split(" ")
        assert len(words) == len(labels)
        assert set(labels) <= set(made.labels)
        spans = spans_of(labels)
        assert all(1 <= span.end - span.start <= 3 for span in spans)
        for span in reversed(spans):
            assert set(words[span.start : span.end]) <= set(made.words)
            words[span.start : span.end] = [span.label]
        assert " ".join("O" if word in made.words else word for word in words) in FORMS


def test_a_word_of_names_is_of_every_kind():
    made = Entities(words=5, train=500)
    seen = {
        (word, label.rpartition("-")[2])
        for text, cell in made.splits(1)["train"]
        for word, label in zip(text.split(" "), cell.split(" "), strict=True)
        if word in made.words
    }
    assert seen == {(word, kind) for word in made.words for kind in (*KINDS, "O")}
