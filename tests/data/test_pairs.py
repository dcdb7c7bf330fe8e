"""Pairs of texts: two columns from every kind of source, both texts in one sequence."""

import json
from random import Random
from typing import Any

import datasets
import pandas as pd
import pytest
import torch

from tfzoo.base.special_ids import OWN
from tfzoo.data.batches import text_batches, truncate
from tfzoo.data.classification import ClassificationData
from tfzoo.errors import BadData, BadOption

pytestmark = pytest.mark.usefixtures("empty_cache")

ROWS = [
    {"premise": "it rains", "hypothesis": "it is wet", "label": "yes", "id": 4},
    {"premise": "the sun\tshines", "hypothesis": "it is wet", "label": "no", "id": 5},
    {"premise": 'a "b", c', "hypothesis": "d", "label": "no", "id": 6},
]
TEXTS = ["it rains\tit is wet", "the sun shines\tit is wet", 'a "b", c\td']
COLUMNS: Any = ["premise", "hypothesis"]
NAMES = ["id", "hypothesis", "label", "premise"]  # in another order than is asked for


def sources(folder):
    """The same rows in each form."""
    cells = [[str(row[name]).replace("\t", " ") for name in NAMES] for row in ROWS]
    (folder / "a.tsv").write_text("".join("\t".join(row) + "\n" for row in [NAMES, *cells]))
    (folder / "c.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    table = pd.DataFrame(ROWS)
    table[NAMES].to_csv(folder / "b.csv", index=False)
    table.to_parquet(folder / "d.parquet")
    paths = ("a.tsv", "b.csv", "c.jsonl", "d.parquet")
    return {
        **{name: str(folder / name) for name in paths},
        "dicts": ROWS,
        "tuples": [(row["premise"], row["hypothesis"], row["label"]) for row in ROWS],
        "pandas": table,
        "datasets": datasets.Dataset.from_list(ROWS),
    }


def prepared(**options):
    data = ClassificationData(**{"text_column": COLUMNS, "tokenizer": "bytes", **options})
    data.prepare_data()
    return data


def test_pairs_are_read_from_every_source(tmp_path):
    for name, source in sources(tmp_path).items():
        rows = list(prepared(train=source, val=source).splits["val"])
        wanted = zip(TEXTS, ("yes", "no", "no"), strict=True)
        assert rows == list(wanted), name


def test_both_texts_are_in_a_row_with_a_separator_between_them():
    data = prepared(train=ROWS, val=ROWS)
    encode = data.vocabulary.tokenizer.encode
    batch = data.sets["val"][[0, 2]]
    for row, pair in zip(batch.tokens.tolist(), (TEXTS[0], TEXTS[2]), strict=True):
        first, second = encode(pair.split("\t"))
        wanted = [*first, OWN.eos, *second, 3]
        assert row == wanted + [0] * (len(row) - len(wanted))
    (lines,) = text_batches([tuple(pair.split("\t")) for pair in TEXTS], data.vocabulary)
    order = [lines.index.index(row) for row in (0, 2)]
    torch.testing.assert_close(lines.tokens[order, : batch.tokens.shape[1]], batch.tokens)


def one_at_a_time(first, second, most):
    """Remove the last token of the longer text until both fit."""
    while len(first) + len(second) > max(most - 1, 0):
        (first if len(first) > len(second) else second).pop()
    return [*first, OWN.eos, *second]


def test_the_longer_text_is_truncated_first():
    random = Random(0)
    for _ in range(1000):
        first, second = ([*range(4, 4 + random.randrange(9))] for _ in range(2))
        most = random.randrange(1, 18)
        found = truncate([*first, OWN.eos, *second], most, OWN)
        assert found == one_at_a_time([*first], [*second], most)


def test_training_and_answering_truncate_alike():
    data = prepared(train=ROWS, val=ROWS, max_length=12)
    encode = data.vocabulary.tokenizer.encode
    (batch,) = text_batches(TEXTS, data.vocabulary, max_length=13)
    mine = data.sets["val"][batch.index]
    torch.testing.assert_close(mine.tokens, batch.tokens)
    assert data.cut == {"train": 2, "val": 2}
    first, second = encode(TEXTS[1].split("\t"))
    at = batch.index.index(1)
    assert batch.tokens[at].tolist() == [*one_at_a_time(first, second, 12), 3]


def test_what_is_no_pair_is_named_with_its_place(tmp_path):
    given = sources(tmp_path)
    del given["tuples"]  # which have no names
    for source in given.values():
        with pytest.raises(BadData, match="'hypo'"):
            prepared(train=source, text_column=["premise", "hypo"])
    with pytest.raises(BadData, match=r"data.train\[0\]: a row is \(premise, hypothesis, label\)"):
        prepared(train=[("a", "b")])
    (tmp_path / "train.premise").write_text("a\n")
    with pytest.raises(BadData, match=r"no train \(or train.tsv, .csv, .jsonl, .* in "):
        prepared(root=str(tmp_path))
    vocabulary = prepared(train=ROWS, val=ROWS).vocabulary
    for line in ("one text", "a\tb\tc", ("a", "b", "c")):
        with pytest.raises(BadData, match=r"line 2 of 2, .*: the model reads pairs of texts"):
            list(text_batches([TEXTS[0], line], vocabulary))
    single = prepared(train=[("a", "x"), ("b", "y")] * 3, text_column="text").vocabulary
    with pytest.raises(BadData, match="line 1 of 1 is not a string"):
        list(text_batches([("a", "b")], single))


def test_a_vocabulary_of_texts_reads_no_pairs():
    data = ClassificationData(train=ROWS, val=ROWS, text_column=COLUMNS, tokenizer="bytes")
    data.vocabulary = prepared(train=ROWS, val=ROWS, text_column="premise").vocabulary
    with pytest.raises(BadOption, match=r"reads single texts, and data.text_column names two"):
        data.prepare_data()
