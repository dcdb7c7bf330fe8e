"""Data sets by name: their columns and splits, and what is said when they cannot be reached."""

from pathlib import Path

import datasets
import pytest

from tests.typed import typed
from tfzoo.commands.main import main
from tfzoo.data.classification import ClassificationData
from tfzoo.data.translation import TranslationData
from tfzoo.errors import BadData, BadOption, UnknownName

pytestmark = pytest.mark.usefixtures("empty_cache")

FILMS = {"text_column": "sentence", "tokenizer": "word"}
TOKENIZER = {"name": "bpe", "vocab_size": 300}


@pytest.fixture
def asked(monkeypatch):
    """A hub of two data sets; holds what was asked of it."""
    calls = []
    classes = datasets.ClassLabel(names=["negative", "positive"])
    labels = datasets.Features({"sentence": datasets.Value("string"), "label": classes})
    rows = {"sentence": [f"text {n}" for n in range(1200)], "label": [n % 2 for n in range(1200)]}
    films = {
        "train": datasets.Dataset.from_dict(rows, labels),
        "validation": datasets.Dataset.from_dict({"sentence": ["good"], "label": [1]}, labels),
        "test": datasets.Dataset.from_dict({"sentence": ["well", "hm"], "label": [0, -1]}, labels),
    }
    pairs = {"translation": [{"en": f"a {n}", "de": f"ein {n}"} for n in range(30)]}
    hub = {"a/films": films, "a/pairs": {name: datasets.Dataset.from_dict(pairs) for name in films}}

    def load(path, config, cache_dir):
        calls.append((path, config, cache_dir))
        if path not in hub:
            raise ConnectionError(f"Couldn't reach '{path}'\nmore")
        return hub[path]

    monkeypatch.setattr(datasets, "load_dataset", load)
    return calls


def test_classes_have_their_names_and_splits_are_found(asked, tmp_path):
    data = ClassificationData(name="a/films:default", **FILMS, test={})
    data.prepare_data()
    assert data.labels == ["negative", "positive"]
    assert list(data.splits["val"]) == [("good", "positive")]
    assert list(data.splits["train"])[:2] == [("text 0", "negative"), ("text 1", "positive")]
    assert len(list(data.splits["train"])) == 1200
    [(path, config, folder)] = asked
    assert (path, config) == ("a/films", "default")
    assert Path(folder).is_relative_to(tmp_path / "cache")


def test_nothing_is_chosen_by_a_split_that_is_named_for_a_test(asked):
    data = ClassificationData(name="a/films", **FILMS, test="validation")
    data.prepare_data()
    assert data.test_names == ["validation"]
    assert list(data.splits["validation"]) == [("good", "positive")]
    train, val = (list(data.splits[name]) for name in ("train", "val"))
    assert len(train) + len(val) == 1200
    assert not set(train) & set(val)
    pairs = TranslationData(name="a/pairs", val="test", tokenizer=TOKENIZER)
    pairs.prepare_data()
    assert pairs.test_names == []


def test_splits_are_named_on_the_command_line(asked, own_folder, capsys):
    names = typed("--data.name a/films --data.text_column sentence --data.train train")
    names += ["--data.test", "validation"]
    small = typed("--trainer.max_steps 1 --trainer.accelerator cpu --model.dim 8 --run run")
    assert main(["fit", "classification/sst2", *names, *small]) == 0
    assert main(["score", "run", "--data.test", "{held: test}"]) == 2
    assert "a/films['test'][1]: 'label' is empty" in capsys.readouterr().err
    assert main(["score", "run", "--predictions", "tsv"]) == 0
    assert (own_folder / "run/predictions/validation.tsv").is_file()


def test_pairs_by_language_are_found_in_either_direction(asked):
    data = TranslationData(name="a/pairs", source="de", target="en", tokenizer=TOKENIZER)
    data.prepare_data()
    assert next(iter(data.splits["train"])) == ("ein 0", "a 0")
    assert data.test_names == ["test"]


def test_a_column_or_split_that_is_not_there_is_told_with_what_is(asked):
    with pytest.raises(BadData, match=r"a/films\['train'\]: no column 'text'.* There: label, sen"):
        ClassificationData(name="a/films").prepare_data()
    with pytest.raises(UnknownName, match="validation"):
        ClassificationData(name="a/films", text_column="sentence", val="valid").prepare_data()


@pytest.mark.parametrize("name", ["rows.csv", "./data", "/data/rows", "~/rows", "data:one"])
def test_a_path_is_no_name(name, own_folder):
    (own_folder / "rows.csv").write_text("text,label\na,b\n", "utf-8")
    (own_folder / "data").mkdir()
    with pytest.raises(BadOption, match=rf"{name!r} is a path or no name.*A folder is data\.root"):
        ClassificationData(name=name)


def test_a_name_that_cannot_be_reached_says_that_it_needs_a_network_or_files(asked):
    with pytest.raises(BadData) as caught:
        ClassificationData(name="no/where").prepare_data()
    message = str(caught.value)
    read = "cannot read the data set 'no/where' (ConnectionError: Couldn't reach 'no/where')"
    for said in (read, "that huggingface.co can be reached", "data.root"):
        assert said in message
    assert "\n" not in message
