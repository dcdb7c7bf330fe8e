"""From labelled text to batches: nothing lost or leaked, bad input told before training."""

import gzip
import random

import pytest
import torch

from tfzoo.base import cache
from tfzoo.data.batches import row_lengths, text_batches
from tfzoo.data.classification import ClassificationData
from tfzoo.data.prepare import chosen, hold_out
from tfzoo.data.table import Text
from tfzoo.errors import BadData, BadOption, UnknownName

pytestmark = pytest.mark.usefixtures("empty_cache")

TRAIN = [
    (f"{who} {what} here", label)
    for who in "abcdefghijkl"
    for what, label in (("runs", "NUM"), ("sits", "0"), ("eats now", "x y"))
]
TEST = [("m runs here", "NUM"), ("", "0"), ("a sits here", "0"), ("n eats now here too", "x y")]


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "text"
    folder.mkdir()
    write(folder, "train.tsv", TRAIN)
    write(folder, "test.tsv.gz", TEST)
    return folder


def write(folder, name, rows):
    data = "".join(f"{label}\t{text}\n" for text, label in [("text", "label"), *rows]).encode()
    (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)


def prepared(**options):
    data = ClassificationData(**{"tokenizer": "word", "val_fraction": 0.3, **options})
    data.prepare_data()
    data.setup("fit")
    return data


def test_batches_hold_text_and_label_of_their_split(root):
    data = prepared(root=str(root), max_tokens=30)
    assert data.labels == ["0", "NUM", "x y"]
    for name, loader in (
        ("train", data.train_dataloader()),
        ("val", data.val_dataloader()),
        ("test", data.test_dataloader()[0]),
    ):
        rows, seen = list(data.splits[name]), []
        for batch in loader:
            assert [data.labels[k] for k in batch.label] == [rows[i][1] for i in batch.index]
            texts = [rows[i][0] for i in batch.index]
            assert batch.source_text == ([] if name == "train" else texts)
            if name != "test":
                assert data.vocabulary.tokenizer.decode(batch.tokens.tolist()) == texts
            assert ((batch.tokens == 3).sum(1) == 1).all()
            assert row_lengths(batch.tokens, batch.lengths) == (batch.tokens != 0).sum(1).tolist()
            assert (batch.lengths is not None) == bool((batch.tokens == 0).any())
            assert batch.tokens.numel() <= 30
            seen += batch.index
        assert sorted(seen) == list(range(len(rows)))


def test_the_vocabulary_is_that_of_training_without_what_is_cut_off(root):
    data = prepared(root=str(root))
    words = {word for text, _ in data.splits["train"] for word in text.split()}
    assert len(data.vocabulary.tokenizer) == len(words) + 4


def test_classes_that_are_whole_numbers_are_in_their_order():
    rows = [(f"text {n}", n) for n in (10, 9, 2)]
    data = ClassificationData(train=rows, val=rows, tokenizer="bytes")
    data.prepare_data()
    assert data.vocabulary.labels == ["2", "9", "10"]


def test_a_test_set_is_also_scored_without_what_training_has(root):
    data = prepared(root=str(root))
    assert data.test_names == ["test", "test_unseen"]
    assert data.overlap == {"test": 1, "test_unseen": 0}
    assert list(data.splits["test_unseen"]) == [row for row in TEST if row not in TRAIN]
    assert "test 4 examples, 1 of their sources in training" in data.describe()
    with pytest.raises(BadOption, match="'test_unseen' is the part of 'test' that is not in train"):
        prepared(train=TRAIN, test={"test": TEST, "test_unseen": TEST[:1]})


def test_training_counts_and_skips_what_has_no_token_and_cuts_what_is_long(root, capsys):
    write(root, "train.tsv", [*TRAIN, ("", "0"), (" ", "0"), ("a a a a a a", "NUM")])
    write(root, "val.tsv", TRAIN)
    data = prepared(root=str(root), max_length=3)
    assert len(data.sets["train"]) == len(TRAIN) + 1
    assert max(batch.tokens.shape[1] for batch in data.train_dataloader()) == 4
    assert capsys.readouterr().err.splitlines() == [
        "data: training skips 2 examples without a token",
        "data: only the first 3 tokens of long sequences are used (data.max_length): 13 of 37 in "
        "train, 12 of 36 in val, 1 of 4 in test, 1 of 2 in test_unseen",
    ]
    assert sum(map(len, data.test_dataloader()[0])) == 4


def test_a_built_in_data_set_is_generated_once():
    options = {"dataset": {"name": "listops", "train": 100, "val": 10, "test": 10}}
    data = prepared(**options)
    assert data.labels == [str(digit) for digit in range(10)]
    rows = {name: list(split) for name, split in data.splits.items()}
    [file] = (cache.folder() / cache.SHELF).glob("generated-*/splits")
    whole, written = file.read_bytes(), file.stat().st_mtime_ns
    again = prepared(**options)
    assert file.stat().st_mtime_ns == written
    assert {name: list(split) for name, split in again.splits.items()} == rows
    file.write_bytes(whole[:-5])
    assert {name: list(split) for name, split in prepared(**options).splits.items()} == rows
    assert file.read_bytes() == whole


def test_dropped_tokens_depend_on_seed_epoch_and_text_alone(root):
    def dropped(epoch, **options):
        data = prepared(root=str(root), token_dropout=0.4, **options)
        loader = data.train_dataloader()
        loader.sampler.set_epoch(epoch)
        return {
            i: [token for token in row if token]
            for batch in loader
            for i, row in zip(batch.index, batch.tokens.tolist(), strict=True)
        }

    one = dropped(0)
    assert one == dropped(0, max_tokens=12) == dropped(0, workers=1)
    assert one != dropped(1)
    tokens = [token for row in one.values() for token in row]
    assert 0.2 < tokens.count(1) / len(tokens) < 0.5
    assert all(row[-1] == 3 for row in one.values())
    data = prepared(root=str(root), token_dropout=0.9)
    assert not any((batch.tokens[:, 0] == 1).all() for batch in data.val_dataloader())


def test_the_vocabulary_of_a_trained_classifier_is_kept(root):
    trained = prepared(root=str(root)).vocabulary
    write(root, "train.tsv", [row for row in TRAIN if row[1] != "0"])
    data = ClassificationData(root=str(root), tokenizer="word")
    data.vocabulary = trained
    data.prepare_data()
    assert data.vocabulary is trained
    assert 0 not in data.sets["train"].labels


def test_text_batches_hold_every_line_once(root):
    vocabulary = prepared(root=str(root)).vocabulary
    lines = ["", "a runs here", "  ", "b " * 50, "unheard of"]
    batches = list(text_batches(lines, vocabulary, max_tokens=60, max_length=21))
    assert sorted(i for batch in batches for i in batch.index) == list(range(len(lines)))
    for batch in batches:
        assert batch.source_text == [lines[i] for i in batch.index]
        assert ((batch.tokens == 3).sum(1) == 1).all()
        assert len(batch.label) == 0
    assert batches[0].tokens.shape[1] == 21
    assert list(text_batches([], vocabulary)) == []
    torch.testing.assert_close(next(text_batches([""], vocabulary)).tokens, torch.tensor([[3]]))


@pytest.mark.parametrize(
    ("name", "rows", "words"),
    [
        ("test.tsv", [("b", "LOC")], "line 2: the label 'LOC' is not one .* training: 0, NUM, x y"),
        ("val.tsv", [("a", "NUM"), ("b", "LOC")], r"val\.tsv, line 3: the label 'LOC'"),
        ("test.tsv", [("a", "")], r"test\.tsv, line 2: no label"),
        ("train.tsv", [*TRAIN, ("a", " ")], r"train\.tsv, line 38: no label"),
        ("train.tsv", [("a", "0"), ("b", "")], r"train\.tsv: the only label is '0'"),
        ("train.tsv", [*TRAIN, ("a", "['0', 'NUM']")], r"train\.tsv: the label .* is a list"),
    ],
)
def test_bad_labels_and_rows_are_told_before_training(root, name, rows, words):
    write(root, name, rows)
    with pytest.raises(BadData, match=words):
        prepared(root=str(root), val_fraction=0.5)


def test_labels_that_differ_in_their_normal_form_alone_are_one_class(root):
    composed, apart = "caf\u00e9", "cafe\u0301"
    rows = [("a", composed), ("b", apart), ("c", "x")]
    data = ClassificationData(train=rows, val=rows, tokenizer="bytes")
    data.prepare_data()
    assert data.labels == [composed, "x"]
    assert data.sets["train"].labels.tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({}, BadOption, "no text is given: set data.root"),
        ({"dataset": "listops", "root": "."}, BadOption, "dataset and data.root: each names"),
        ({"root": ".", "text_column": "label"}, BadOption, "name a column twice: label, label"),
        ({"train": TRAIN, "text_column": ["a", "b", "c"]}, BadOption, "one column, or two"),
        ({"dataset": "listops", "test": "x"}, BadOption, "has its own splits: set it to null"),
        ({"dataset": "numbers"}, BadOption, "has no labels"),
        ({"root": ".", "tokenizer": "wrod"}, UnknownName, "word"),
        ({"root": ".", "test": {"val": "x"}}, BadOption, "val"),
    ],
)
def test_options_that_do_not_fit_are_refused_before_text_is_read(options, error, words):
    with pytest.raises(error, match=words):
        ClassificationData(**options)


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


@pytest.mark.parametrize(("count", "said"), [(0, "0 rows, 0"), (1, "1 rows, 1"), (9, "9 rows, 1")])
def test_what_cannot_be_divided_is_told(count, said):
    rows = [("a", "ab"[row % 2]) for row in range(count)]
    with pytest.raises(BadData, match=rf"^data\.train: {said} diff.*or give data\.val$"):
        ClassificationData(train=rows, tokenizer="bytes").prepare_data()
