"""Rows from Python, and files of each kind, train a model, or one sentence says why they do not."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import pytest
import torch
import yaml

import tfzoo
from tests.trainers import quiet
from tfzoo.commands.main import main
from tfzoo.data.classification import ClassificationData
from tfzoo.data.documents import DocumentData
from tfzoo.data.translation import TranslationData
from tfzoo.errors import BadData, BadOption, TfzooError, UnknownName
from tfzoo.tasks.regression import RegressionData

pytestmark = pytest.mark.usefixtures("no_pictures", "empty_cache")

DICTS = [{"text": f"{word} {n}", "label": word} for word in ("good", "bad") for n in range(6)]
TUPLES = [(row["text"], row["label"]) for row in DICTS]
PAIRS = [{"en": f"number {n}", "de": f"Zahl {n}"} for n in range(12)]
TOKENIZER = {"name": "bpe", "vocab_size": 300}


class Countable:
    """A sequence of somebody's own: a length and an index, and no ``__iter__``."""

    def __len__(self):
        return len(TUPLES)

    def __getitem__(self, index):
        return TUPLES[index]


def splits(rows):
    one = datasets.Dataset.from_list(rows)
    return datasets.DatasetDict({"train": one, "validation": one, "test": one})


def saved(folder, rows):
    splits(rows).save_to_disk(str(folder / "saved"))
    return folder / "saved"


def class_folders(folder):
    """The layout of IMDb, with a text of two lines."""
    for split in ("train", "val", "test", "test_b"):
        for number, row in enumerate(DICTS):
            file = folder / split / row["label"] / f"{number:02}.txt"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{row['text']}\nend\n", "utf-8")
    return str(folder)


CLASSIFICATION: dict[str, Callable[[Path], dict[str, Any]]] = {
    "dicts": lambda folder: {"train": DICTS, "test": DICTS},
    "tuples": lambda folder: {"train": TUPLES, "test": {"a": TUPLES, "b": TUPLES[:3]}},
    "a sequence": lambda folder: {"train": Countable()},
    "a Dataset": lambda folder: {"train": datasets.Dataset.from_list(DICTS).with_format("numpy")},
    "a DatasetDict": lambda folder: {"dataset": splits(DICTS)},
    "a folder of save_to_disk": lambda folder: {"root": str(saved(folder, DICTS))},
    "a saved split": lambda folder: {"train": f"{saved(folder, DICTS)}/train"},
    "class folders": lambda folder: {"root": class_folders(folder)},
    "a folder of class folders": lambda folder: {"train": f"{class_folders(folder)}/train"},
    "splits in a dict": lambda folder: {"dataset": {"train": DICTS, "odd": DICTS}, "test": "odd"},
}
TRANSLATION: dict[str, Callable[[Path], dict[str, Any]]] = {
    "dicts": lambda folder: {"train": PAIRS, "val": PAIRS},
    "a DatasetDict of translations": lambda folder: {
        "dataset": splits([{"translation": pair} for pair in PAIRS])
    },
    "a folder of save_to_disk": lambda folder: {"root": str(saved(folder, PAIRS))},
}


def trained(task, data, folder):
    trainer = quiet(folder, max_steps=2)
    trainer.fit(task, datamodule=data)
    return trainer


def classifier(data):
    data.prepare_data()
    sizes = {"vocab_size": len(data.vocabulary.tokenizer), "classes": len(data.labels)}
    model = tfzoo.TransformerClassifier(**sizes, dim=8, layers=1, heads=1)
    return tfzoo.ClassificationTask(model, data.vocabulary)


@pytest.mark.parametrize("kind", CLASSIFICATION)
def test_a_classifier_trains_on(kind, tmp_path):
    options = {"tokenizer": "word", "max_tokens": 16, "val_fraction": 0.3}
    data = ClassificationData(**options, **CLASSIFICATION[kind](tmp_path))
    task = classifier(data)
    assert data.labels == ["bad", "good"]
    assert trained(task, data, tmp_path).global_step == 2


def test_class_folders_are_all_splits_of_a_root(tmp_path):
    data = ClassificationData(root=class_folders(tmp_path), tokenizer="word")
    data.prepare_data()
    sizes = {name: len([*rows]) for name, rows in data.splits.items()}
    assert sizes == {"train": 12, "val": 12, "test": 12, "test_b": 12}
    assert next(iter(data.splits["test_b"])) == ("bad 0\nend", "bad")
    (tmp_path / "train/bad/12.txt").write_bytes(b"\xff")
    with pytest.raises(BadData, match=r"train/bad/12\.txt, line 1: not UTF-8"):
        ClassificationData(root=str(tmp_path), tokenizer="word").prepare_data()


def test_spaces_around_a_label_are_no_part_of_it():
    rows = [("a", "good"), ("b", " good"), ("c", "very  bad\n"), ("d", "very bad")]
    data = ClassificationData(train=rows, val=rows, tokenizer="word")
    data.prepare_data()
    assert data.labels == ["good", "very bad"]
    assert data.sets["train"].labels.tolist() == [0, 0, 1, 1]


def test_batches_of_a_plain_loader_are_refused_with_what_makes_them(tmp_path):
    data = ClassificationData(train=DICTS, val=DICTS, tokenizer="word")
    task = classifier(data)
    loader = torch.utils.data.DataLoader([([5, 6], 0), ([7, 8], 1)], batch_size=2)
    with pytest.raises(BadData, match=r"not a list: .* collate_fn=\S*ClassificationBatch\.collate"):
        quiet(tmp_path, max_steps=1).fit(task, loader)


@pytest.mark.parametrize("kind", TRANSLATION)
def test_a_translator_trains_on(kind, tmp_path):
    data = TranslationData(tokenizer=TOKENIZER, max_tokens=60, **TRANSLATION[kind](tmp_path))
    data.prepare_data()
    assert list(data.splits["val"])[3] == ("number 3", "Zahl 3")
    model = tfzoo.Transformer(len(data.tokenizers.source), dim=8, layers=1, heads=1)
    task = tfzoo.TranslationTask(model, data.tokenizers)
    assert trained(task, data, tmp_path).global_step == 2


def test_rows_are_not_stored_and_not_needed_for_inference(tmp_path, capsys):
    data = ClassificationData(train=[*DICTS, ("secret", "bad")], val=DICTS, tokenizer="bytes")
    task = classifier(data)
    trainer = trained(task, data, tmp_path)
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    assert b"secret" not in (tmp_path / "a.ckpt").read_bytes()
    (answer,) = tfzoo.ClassificationTask.load(tmp_path / "a.ckpt").predict(["good 1"])
    assert answer.label in data.labels
    assert main(["score", str(tmp_path / "a.ckpt")]) == 2
    assert "trained elsewhere or in Python" in capsys.readouterr().err
    changed = ClassificationData(train=[*DICTS, ("other", "bad")], val=DICTS)
    with pytest.raises(BadOption, match="to resume, take the text and the seed"):
        trainer.fit(task, datamodule=changed, ckpt_path=tmp_path / "a.ckpt", weights_only=True)
    changed.vocabulary = task.tokenizer
    with pytest.raises(TfzooError, match="the training text has changed"):
        trainer.fit(task, datamodule=changed, ckpt_path=tmp_path / "a.ckpt", weights_only=True)


def test_classes_that_are_stored_as_numbers_have_their_names():
    label = datasets.ClassLabel(names=["negative", "positive"])
    features = datasets.Features({"text": datasets.Value("string"), "label": label})
    rows = {"text": ["a", "b"], "label": [0, 1]}
    data = ClassificationData(train=datasets.Dataset.from_dict(rows, features), val=[("a", "x")])
    found = list(data.text.external(data.form)["train"])
    assert found == [("a", "negative"), ("b", "positive")]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([*TUPLES, "text"], r"data.train\[12\]: a row is \(text, label\) or .*, not a str"),
        ([("a", "b", "c")], r"data.train\[0\].* not a tuple.*; for pairs of texts, set data.text"),
        ([{"text": "a", "lable": "b"}], r"data.train\[0\]: no column 'label'. Did you mean 'labl"),
        ([("a", None)], r"data.train\[0\]: 'label' is empty"),
        ([("a", 0.5)], r"'label' is not text but a float, 0.5.*For numbers, set task: regression"),
        ([("a", np.float32(2))], "set task: regression"),
        ([("a", ["x", "y"])], "'label' is not text but a list.*set task: multilabel_class"),
        ([("a", np.array([0, 1]))], "set task: multilabel_classification"),
        (pd.DataFrame({"text": ["a"], "label": [None]}), r"data.train\[0\]: 'label' is empty"),
        (pd.DataFrame({"text": ["a"], "lable": ["b"]}), r"data.train\[0\]: no column 'label'. Di"),
        (datasets.Dataset.from_dict({"text": ["a"], "label": [0.5]}), r"data.train\[0\].*regress"),
        (datasets.Dataset.from_dict({"text": ["a"], "label": [["x"]]}), "set task: multilabel"),
        ([], "train: no text"),
    ],
)
def test_a_row_that_is_wrong_is_refused_by_its_index(rows, words):
    with pytest.raises(BadData, match=words):
        ClassificationData(train=rows, val=TUPLES).prepare_data()


STREAM = datasets.Dataset.from_list(DICTS).to_iterable_dataset()


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"train": iter(TUPLES)}, BadOption, "is of type list_iterator, which .* give a list"),
        ({"train": {"text": ["a"]}}, BadOption, "data.train is of type dict, which is not"),
        ({"train": splits(DICTS)}, BadOption, "data.train is of type DatasetDict.* dataset="),
        ({"dataset": splits(DICTS), "train": DICTS}, BadOption, "has splits; data.train, .* name "),
        ({"dataset": splits(DICTS), "test": "tset"}, UnknownName, "Did you mean 'test'"),
        ({"dataset": splits(DICTS), "name": "a/b"}, BadOption, "each names a text"),
        ({"train": TUPLES, "test": {"a/b": TUPLES}}, BadOption, "cannot be named 'a/b'"),
        ({"train": STREAM}, BadOption, "of type IterableDataset, which is not read several times"),
    ],
)
def test_what_has_no_rows_is_refused(options, error, words):
    with pytest.raises(error, match=words):
        ClassificationData(**options).prepare_data()


def test_a_misspelt_argument_of_any_data_module_is_named_with_the_nearest():
    for data in (ClassificationData, TranslationData, DocumentData, RegressionData):
        with pytest.raises(BadOption, match=rf"{data.__name__} has .* 'trian'\. Did .* 'train'\?"):
            data(trian="x.csv")


def test_a_missing_column_of_a_translation_names_the_option_of_its_side():
    for row, option in (({"eng": "a", "de": "b"}, "source"), ({"en": "a"}, "target")):
        with pytest.raises(BadData, match=rf"There: .*data\.{option}_column: NAME$") as error:
            TranslationData(train=[row], val=PAIRS).prepare_data()
        assert str(error.value).count("_column") == 1


@pytest.mark.parametrize("data", [DocumentData, RegressionData])
def test_a_task_says_which_data_it_takes(data, tmp_path):
    """Also where batches have the same class, as those of numbers and of classes."""
    rows = [{"text": f"a {n}", "label": n % 2} for n in range(12)]
    other = data(train=rows, val=rows)
    task, said = (
        classifier(ClassificationData(train=rows)),
        rf"ClassificationData, not {data.__name__}",
    )
    with pytest.raises(BadOption, match=rf"ClassificationTask takes tfzoo\.\S*{said}"):
        quiet(tmp_path, max_steps=1).fit(task, other)


def test_translations_of_rows_need_validation_rows():
    with pytest.raises(BadOption, match=r"data\.val is not given"):
        TranslationData(train=PAIRS).prepare_data()
    with pytest.raises(BadOption, match=r"data\.val is not given, and the data set has no split"):
        TranslationData(dataset={"train": PAIRS}).prepare_data()


def test_the_same_rows_are_prepared_once_and_a_spawned_process_gets_them(monkeypatch):
    data = ClassificationData(train=pd.DataFrame(DICTS), val=DICTS)
    data.prepare_data()
    again = ClassificationData(train=TUPLES, val=DICTS)  # the same text
    monkeypatch.setattr("tfzoo.data.prepare.write", None)  # nothing is encoded anew
    again.prepare_data()
    assert again.content == data.content
    there = pickle.loads(pickle.dumps(data))
    there.setup("fit")
    assert there.content == data.content
    assert len(list(there.train_dataloader())) == len(list(data.train_dataloader()))


@pytest.mark.parametrize("batch", [tfzoo.ParallelBatch, tfzoo.ClassificationBatch])
@pytest.mark.parametrize(("ids", "words"), [([], "at least one"), ([[5, 3]], "id 3 is a special")])
def test_lists_of_ids_that_are_no_batch_are_refused(batch, ids, words):
    with pytest.raises(BadData, match=words):
        batch.collate([(one, one if batch is tfzoo.ParallelBatch else 0) for one in ids])


def test_classes_of_a_batch_are_whole_numbers():
    batch = tfzoo.ClassificationBatch.collate([(torch.tensor([5, 6]), torch.tensor(1))])
    assert batch.tokens.tolist() == [[5, 6, 3]]
    assert batch.label.tolist() == [1]
    with pytest.raises(TypeError, match="float"):
        tfzoo.ClassificationBatch.collate([([5], 0.5)])


def test_a_recipe_names_a_folder_of_save_to_disk_and_its_splits(own_folder, capsys):
    folder = saved(own_folder, DICTS)
    command = ["fit", "classification/trec6", "--data.root", str(folder), "--data.val", "test"]
    assert main([*command, "--print_config"]) == 0
    ClassificationData(root="saved").prepare_data()
    data = yaml.safe_load(capsys.readouterr().out)["data"]
    assert (data["root"], data["dataset"], data["val"]) == (str(folder), None, "test")


def test_a_folder_of_several_splits_is_no_split(tmp_path):
    folder = saved(tmp_path, DICTS)
    with pytest.raises(BadData, match=r"holds the splits test, train, validation: give it as data"):
        ClassificationData(train=str(folder), val=str(folder)).prepare_data()


def test_rows_in_a_recipe_are_refused(tmp_path, capsys):
    recipe = tmp_path / "mine.yaml"
    recipe.write_text("task: classification\ndata: {train: [{text: a, label: b}]}\n", "utf-8")
    assert main(["fit", str(recipe), "--print_config"]) == 2
    assert "data.train must be str, not {" in capsys.readouterr().err
