"""Text in several files and other tables: the same rows, or a refusal that names the fix."""

import gzip
from pathlib import Path

import pytest
import yaml

from tfzoo.commands.main import main
from tfzoo.data.classification import ClassificationData
from tfzoo.data.source import find_texts
from tfzoo.data.table import TextFormat
from tfzoo.data.translation import TranslationData
from tfzoo.errors import BadData

EN_DE = TextFormat(("en", "de"), ("en", "de"), header=False)


@pytest.fixture(autouse=True)
def folder(own_folder, monkeypatch):
    """Three shards of pairs, as two files and as one table each; the working directory."""
    monkeypatch.setenv("TFZOO_CACHE", str(own_folder / "cache"))
    for n in (1, 2, 3):
        (own_folder / f"part{n}.en").write_text(f"a {n}\nb {n}\n")
        (own_folder / f"part{n}.de").write_bytes(f"A {n}\nB {n}\n".encode())
        with gzip.open(own_folder / f"table{n}.tsv.gz", "wt") as stream:
            stream.write(f"a {n}\tA {n}\nb {n}\tB {n}\n")
    return own_folder


ALL = [(f"{low} {n}", f"{low.upper()} {n}") for n in (1, 2, 3) for low in "ab"]


@pytest.mark.parametrize(
    ("paths", "rows"),
    [
        (["part*"], ALL),
        (["part*.en"], ALL),
        (["part1", "part2"], ALL[:4]),
        (["table*"], ALL),
        (["table*.tsv.gz"], ALL),
        (["table3.tsv", "part1"], [*ALL[4:], *ALL[:2]]),
        (["part3"], ALL[4:]),
    ],
)
def test_lists_and_patterns_are_read_in_order(folder, paths, rows):
    assert list(find_texts(Path(), paths, EN_DE)) == rows
    assert list(find_texts(folder, paths, EN_DE)) == rows
    assert list(find_texts(Path("/"), [str(folder / one) for one in paths], EN_DE)) == rows


def test_a_pattern_that_matches_nothing_is_refused():
    with pytest.raises(BadData, match=r"no file matches shards/\*"):
        find_texts(Path("shards"), ["*"], EN_DE)


def test_a_row_is_named_by_its_own_file(folder):
    (folder / "part2.en").write_text("a 2\n\n")
    text = find_texts(folder, ["part*"], EN_DE)
    assert text.location(3) == f"{folder}/part2.en and {folder}/part2.de, line 2"
    (folder / "part3.de").write_text("A 3\n")
    with pytest.raises(BadData, match=r"part3\.de has 1 lines, .*part3\.en has more"):
        list(text)


def test_splits_of_several_files_are_prepared_and_changes_are_noticed(folder):
    tokenizer = {"name": "bpe", "vocab_size": 300}

    def prepared():
        files = {"train": ["part1", "part2"], "val": "table3.tsv", "test": "part*"}
        data = TranslationData(**files, tokenizer=tokenizer)
        data.prepare_data()
        return data

    data = prepared()
    assert list(data.splits["train"]) == ALL[:4]
    assert data.test_names == ["test"]
    assert data.overlap == {"test": 4}
    (folder / "part2.en").write_text("a 2\nc 2\n")
    assert prepared().content != data.content


def test_paths_of_a_list_are_made_absolute(folder, capsys):
    recipe = folder / "mine.yaml"
    data = {"train": ["part1", "part*"], "val": "part3", "test": {"a": ["table1.tsv"]}}
    recipe.write_text(yaml.safe_dump({"task": "translation", "data": data}), "utf-8")
    assert main(["fit", str(recipe), "--print_config"]) == 0
    printed = yaml.safe_load(capsys.readouterr().out)["data"]
    assert printed["train"] == [f"{folder}/part1", f"{folder}/part*"]
    assert printed["test"] == {"a": [f"{folder}/table1.tsv"]}
    assert main(["fit", str(recipe), "--data.train", "[part2]", "--print_config"]) == 0
    assert yaml.safe_load(capsys.readouterr().out)["data"]["train"] == [f"{folder}/part2"]


CSV = 'id;text;label\n1;"a; ""b""";x\n2;c;y\n'


@pytest.mark.parametrize("sign", [",", ";", "\t", "|"])
def test_the_first_row_says_what_separates_columns(folder, sign):
    (folder / "t.csv").write_text(CSV.replace(";", sign))
    data = ClassificationData(train="t.csv", val="t.csv", tokenizer="word")
    data.prepare_data()
    assert list(data.splits["train"]) == [('a; "b"'.replace(";", sign), "x"), ("c", "y")]
    with pytest.raises(BadData, match=r"no column 'labl'. Did you mean 'label'. There: id"):
        ClassificationData(train="t.csv", val="t.csv", label_column="labl").prepare_data()
