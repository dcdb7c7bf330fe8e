"""Several labels: scores against formulas in numpy, the threshold, labels as files have them."""

import csv
import json

import numpy as np
import pytest
import torch

from tests.scored import task_with
from tests.trainers import quiet
from tfzoo.errors import BadData
from tfzoo.tasks.multilabel_classification import (
    MultilabelClassificationTask,
    MultilabelData,
    best_threshold,
)

NEWS = [
    ("rates fall", ["economy"]),
    ("minister resigns over budget", ["politics", "economy"]),
    ("rain tomorrow", []),
    ("vote on sunday", "politics"),
]


def f1(taken, label):
    """``2 TP / (2 TP + FP + FN)`` along the first axis, 0 where that is 0 / 0."""
    both, either = (taken & label).sum(0), taken.sum(0) + label.sum(0)
    return np.asarray(2 * both / np.maximum(either, 1))


def cases(count):
    """Probabilities, among them equal ones, labels and a threshold."""
    random = np.random.default_rng(0)
    found = []
    for _ in range(count):
        shape = random.integers(1, 12), random.integers(1, 5)
        probability = random.choice([0.1, 0.25, 0.3, 0.55, 0.8, 0.95], shape)
        probability = np.where(random.random(shape) < 0.5, probability, random.random(shape))
        found.append((probability, random.random(shape) < 0.4, float(random.choice([0.2, 0.5]))))
    return found


def test_no_threshold_has_a_larger_micro_f1_than_the_chosen_one():
    for probability, label, _ in cases(300):
        chosen = best_threshold(torch.tensor(probability).logit(), torch.tensor(label))
        p, y = probability.reshape(-1), label.reshape(-1)
        best = max(float(f1(p > threshold, y)) for threshold in [0.0, *p])
        assert float(f1(p > chosen, y)) == (pytest.approx(best) if label.any() else 0)
        assert label.any() or chosen == 0.5


def test_a_threshold_parts_neighbouring_numbers():
    upper = torch.linspace(-4, -1, 99, dtype=torch.float64)
    for pair in torch.stack([upper, upper.nextafter(upper - 1)], 1).split(1):
        more, less = pair.sigmoid()[0]
        assert less <= best_threshold(pair, torch.tensor([[1, 0]])) < more or less == more


def test_labels_are_ranked_by_logits_whose_probabilities_round_to_1():
    """25 and 21 for texts with the label, 19 and 18 for others; and the same, negated."""
    logits, label = torch.tensor([[25.0], [21.0], [19.0], [18.0]]), torch.tensor([1, 1, 0, 0])
    for shift in (0.0, -20.0, -60.0, 1e4):
        for sign in (1, -1):
            task = task_with(MultilabelClassificationTask, threshold=torch.tensor(0.5))
            columns = (sign * logits + shift).double(), label[:, None].bool()
            assert float(task.compute_scores(*columns)["auroc"]) == (sign == 1)
            if shift <= 0 and sign == 1:
                task.threshold = torch.tensor(best_threshold(*columns), dtype=torch.float64)
                assert float(task.compute_scores(*columns)["micro_f1"]) == 1


def fitted(data, average=None, **trainer):
    data.prepare_data()
    optim = {"lr": 0.01, "average": average}
    recipe = {"model": {"dim": 16, "heads": 2, "layers": 1}, "optim": optim}
    task = MultilabelClassificationTask.build(recipe, data.vocabulary)
    one = quiet(**trainer)
    one.fit(task, datamodule=data)
    return task, one


@pytest.mark.parametrize("average", [None, 0.9])
def test_a_checkpoint_has_the_threshold_that_its_validation_chose(average, tmp_path):
    reach = {"name": "reachable", "train": 64, "val": 64, "test": 16}
    data = MultilabelData(dataset=reach, tokenizer={"name": "word", "cut": "spaces"})
    task, trainer = fitted(data, average, max_steps=20)
    logged = trainer.callback_metrics["val/micro_f1"]
    assert task.threshold != 0.5
    trainer.save_checkpoint(tmp_path / "one.ckpt")
    again = MultilabelClassificationTask.load(tmp_path / "one.ckpt")
    assert again.threshold == task.threshold
    (scores,) = trainer.validate(again, data, verbose=False)
    assert scores["val/micro_f1"] == pytest.approx(float(logged))
    data.prepare_data()
    held = torch.from_numpy(data.sets["val"].labels[data.sets["val"].rows]).double()
    p = held.mean(0)
    entropies = torch.special.entr(p) + torch.special.entr(1 - p)
    assert task.constant_loss(data) == pytest.approx(float(entropies.mean()))
    again.threshold.fill_(0.9)
    trainer.validate(again, data, verbose=False)
    assert again.threshold == 0.9, "which training alone chooses"
    task.threshold.fill_(0.01)  # every label
    answers, rows = task.predict(["a? a>b", "b?"]), task.predictions(data, "test")
    assert [sorted(answer.labels) for answer in answers] == [data.vocabulary.labels] * 2
    assert [answer.labels for answer in answers] == [[*one.probabilities] for one in answers]
    probabilities = [*answers[0].probabilities.values()]
    assert probabilities == sorted(probabilities, reverse=True)
    assert not answers[0].truncated
    task.threshold.fill_(max(answers[0].probabilities.values()))  # which is not over itself
    assert task.predict(["a? a>b", "b?"])[0].labels == []
    assert [sorted(row["labels"]) for row in rows] == [data.vocabulary.labels] * 16
    wanted = [label for _, label in data.splits["test"]]
    assert [",".join(row["reference"]) for row in rows] == wanted


def labels(data, name):
    data.prepare_data()
    known = np.array(data.vocabulary.labels)
    return [known[flags].tolist() for flags in data.sets[name].labels]


def test_labels_are_lists_or_separated_by_the_delimiter(tmp_path):
    wanted = [["economy"], ["economy", "politics"], [], ["politics"]]
    assert labels(MultilabelData(train=NEWS, val=NEWS, tokenizer="bytes"), "val") == wanted
    cells = "a,economy\nb,politics; economy\nc,\nd,politics;\n"
    (tmp_path / "news.csv").write_text(f"text,label\n{cells}", "utf-8")
    path = str(tmp_path / "news.csv")
    data = MultilabelData(train=path, val=path, label_delimiter=";", tokenizer="bytes")
    assert labels(data, "val") == wanted


@pytest.mark.parametrize("form", ["csv", "tsv"])
def test_the_text_of_a_list_is_the_list(form, tmp_path):
    lists = [["x, y", "it's"], [], ["z"], [1, 2]]
    rows = [(f"text {row}", cell) for row, cell in enumerate(lists)]
    given = MultilabelData(train=rows, val=rows, tokenizer="bytes")
    for write in (str, json.dumps):
        path = tmp_path / f"{write.__name__}.{form}"
        with path.open("w") as stream:
            if form == "csv":
                table = [("text", "label"), *((text, write(cell)) for text, cell in rows)]
                csv.writer(stream).writerows(table)
            else:
                stream.write("text\tlabel\n")
                stream.writelines(f"{text}\t{write(cell)}\n" for text, cell in rows)
        read = MultilabelData(train=str(path), val=str(path), tokenizer="bytes")
        assert labels(read, "val") == labels(given, "val")
        assert read.vocabulary.labels == ["1", "2", "it's", "x, y", "z"]
    path.write_text("text\tlabel\na\tx\nb\t['x' 'y']\n")
    with pytest.raises(BadData, match=r"line 3: 'label' is \['x' 'y'\], which is no list"):
        MultilabelData(train=str(path), val=NEWS).prepare_data()


def test_a_label_that_training_does_not_have_is_named_with_its_row():
    test = [NEWS[0], ("x", ["economy", "sports"])]
    data = MultilabelData(train=NEWS, val=NEWS, test=test, tokenizer="bytes")
    with pytest.raises(BadData, match=r"data.test\[1\]: the label 'sports' is not one of the lab"):
        data.prepare_data()
    with pytest.raises(BadData, match="no example has a label"):
        MultilabelData(train=[("a", ""), ("b", [])], val=NEWS, tokenizer="bytes").prepare_data()
