"""The classification task: scores, checkpoints, weights and pictures."""

import pytest
import torch

import tfzoo
from tests.scored import task_with
from tests.tiny import ready
from tests.trainers import quiet
from tfzoo.errors import BadData, BadOption, BadRun
from tfzoo.learning.cross_entropy import class_losses
from tfzoo.tasks.classification import ClassificationTask, confusion

WORDS = {"colour": ["red", "green", "blue"], "NUM": ["one", "two", "three", "four"]}


def sentences(count, seed):
    """Texts of one to six words; the first says the class, twice as often NUM."""
    draw = torch.Generator().manual_seed(seed)

    def pick(n):
        return int(torch.randint(0, n, (1,), generator=draw))

    every, rows = [*WORDS["colour"], *WORDS["NUM"]], []
    for _ in range(count):
        label = ("colour", "NUM", "NUM")[pick(3)]
        words = [WORDS[label][pick(3)], *(every[pick(7)] for _ in range(pick(6)))]
        rows.append((" ".join(words), label))
    return rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("words")
    sizes = {"train": 300, "val": 40, "test": 30, "test_odd": 11}
    for seed, (name, count) in enumerate(sizes.items()):
        rows = "".join(f"{text}\t{label}\n" for text, label in sentences(count, seed))
        (root / f"{name}.tsv").write_text(f"text\tlabel\n{rows}", "utf-8")
    return root


@pytest.fixture(scope="module")
def data(folder):
    options = {"tokenizer": {"name": "bpe", "vocab_size": 280}, "max_tokens": 300}
    return ready(tfzoo.ClassificationData(root=str(folder), **options))


def task_of(data, loss=None, **model):
    small = {"dim": 16, "heads": 2, "layers": 1, "dropout": 0.0}
    recipe = {"seed": 1, "optim": {"lr": 1e-2, "schedule": "constant"}, "loss": loss}
    return tfzoo.ClassificationTask.build({**recipe, "model": {**small, **model}}, data.vocabulary)


def trainer_in(folder, **options):
    return quiet(folder, **{"max_steps": 3, **options})


def test_what_is_scored_is_what_is_predicted(data, tmp_path):
    trainer, task = trainer_in(tmp_path), task_of(data)
    trainer.test(task, datamodule=data, verbose=False)
    rows = task.predictions(data, "test")
    assert [(row["text"], row["reference"]) for row in rows] == sentences(30, 2)
    right = sum(row["label"] == row["reference"] for row in rows) / len(rows)
    assert float(trainer.callback_metrics["test/accuracy"]) == pytest.approx(right)
    found = task.predict([row["text"] for row in rows])
    assert [one.label for one in found] == [row["label"] for row in rows]
    probabilities = [row["probability"] for row in rows]
    assert [one.probability for one in found] == pytest.approx(probabilities, abs=1e-5)
    of_sets = trainer.predict(task, datamodule=data)
    batches = of_sets[data.test_names.index("test")]
    predicted = [one for batch in batches for one in batch]
    assert len(batches) > 1
    assert [(one["text"], one["reference"]) for one in predicted] == sentences(30, 2)
    assert [one["label"] for one in predicted] == [one.label for one in found]
    alone = trainer.predict(task, data.test_dataloader()[data.test_names.index("test")])
    rows = sorted((one for batch in alone for one in batch), key=lambda one: one["index"])
    assert [one["text"] for one in rows] == [text for text, _ in sentences(30, 2)]


def test_a_checkpoint_of_a_plain_trainer_is_all_that_is_needed(data, tmp_path):
    trainer = trainer_in(tmp_path)
    task = task_of(data, {"class_weights": "balanced"}, norm="batch", pooling="max")
    trainer.fit(task, datamodule=data)
    path = tmp_path / "mine.ckpt"
    trainer.save_checkpoint(path)
    loaded = tfzoo.ClassificationTask.load(path)
    lines = ["red", "", "four two four"]
    assert loaded.predict(lines) == task.predict(lines)
    assert loaded.labels == ["NUM", "colour"]
    torch.testing.assert_close(loaded.class_weights, task.class_weights)
    kept = torch.load(path, weights_only=True)["tfzoo"]
    assert (kept["task"], kept["batches"]) == ("classification", 3)
    assert not {"vocab_size", "classes"} & kept["recipe"]["model"].keys()
    with pytest.raises(BadRun, match="is of the task 'classification', not 'translation'"):
        tfzoo.TranslationTask.load(path)


def test_an_answer_has_the_probabilities_of_all_labels_the_largest_first(data):
    task = task_of(data)
    for answer in task.predict(["red two", "", " ", "green " * 400, "one"], max_tokens=50):
        ranked = [*answer.probabilities.values()]
        assert ranked == sorted(ranked, reverse=True)
        assert ranked[0] == answer.probability == answer.probabilities[answer.label]
        assert answer.probabilities.keys() == set(task.labels)
        assert sum(ranked) == pytest.approx(1)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("red two", r"pass a list of texts, not one: \['red two'\]"),
        (["red", None], "line 2 of 2 is not a string but None"),
        ([0.5], "not a string"),
        (["\ud83d"], "lone surrogate"),
    ],
)
def test_what_is_no_list_of_texts_is_refused(lines, words, data):
    with pytest.raises(BadData, match=words):
        task_of(data).predict(lines)


def test_the_loss_is_the_weighted_mean_over_texts(data, tmp_path):
    task = task_of(data, {"class_weights": {"NUM": 3.0}})
    batch = next(iter(data.val_dataloader()))
    smoothed, _ = class_losses(task.logits(batch), batch.label, 0.1)
    weights = torch.where(batch.label == data.labels.index("NUM"), 3.0, 1.0)
    trainer_in(tmp_path, max_steps=0).fit(task, datamodule=data)  # attaches a trainer that logs
    task.log_training = lambda values, tokens: found.append(int(tokens))
    found = []
    task.normalizer.reset()
    torch.testing.assert_close(
        task.train().training_step(batch, 0) / task.normalizer.count,
        (weights * smoothed).sum() / weights.sum(),
    )
    assert found == [int((batch.tokens != 0).sum())]


def test_balanced_weights_are_those_of_the_training_text(data, tmp_path):
    task = task_of(data, {"class_weights": "balanced"})
    trainer_in(tmp_path, max_steps=1).fit(task, datamodule=data)
    labels = [label for _, label in sentences(300, 0)]
    counts = torch.tensor([float(labels.count(label)) for label in data.labels])
    torch.testing.assert_close(task.class_weights, 300 / (2 * counts))
    task.optim.label_smoothing = 0.0
    labels = [label for _, label in sentences(40, 1)]
    weighed = torch.tensor([labels.count(label) for label in data.labels]) * task.class_weights
    p = weighed / weighed.sum()
    assert task.constant_loss(data) == pytest.approx(float(torch.special.entr(p).sum()))
    lonely = task_of(data, {"class_weights": "balanced"})
    with pytest.raises(BadOption, match="balanced needs ClassificationData"):
        trainer_in(tmp_path, max_steps=1).fit(lonely, train_dataloaders=data.train_dataloader())


def test_a_step_draws_the_same_numbers_whatever_was_drawn_before(data, tmp_path):
    def weights(disturbance):
        torch.manual_seed(disturbance)
        task = task_of(data, dropout=0.5, pooled_dropout=0.2)
        trainer_in(tmp_path, limit_val_batches=0).fit(task, datamodule=data)
        return task.model.head.weight.detach().clone()

    torch.testing.assert_close(weights(1), weights(2), rtol=0, atol=0)


def test_loaders_of_ones_own_need_no_data_module(data, tmp_path):
    task, trainer = task_of(data), trainer_in(tmp_path)
    trainer.fit(task, data.train_dataloader(), data.val_dataloader())
    loaders = data.test_dataloader()
    trainer.test(task, dataloaders=loaders[0], verbose=False)
    alone = float(trainer.callback_metrics["test/loss"])
    (found,) = trainer.test(task, dataloaders=loaders, verbose=False)  # once, not for each loader
    sizes = [len(data.sets[name]) for name in data.test_names]
    assert [int(found[f"test/{k}/items"]) for k in range(len(loaders))] == sizes
    assert float(found["test/0/loss"]) == pytest.approx(alone)
    assert "test/loss" not in found
    columns = [torch.tensor(one) for one in ([0.9, 0.8], [0, 0], [0, 1])]  # predicted, true
    matrix, *_ = task.figures(columns, "")["confusion"].args
    assert matrix[1].tolist()[:2] == [1, 0]
    pictures = {path.name for path in task.save_figures(tmp_path)}
    assert {"confusion_0.svg", "confusion_1.svg"} <= pictures


def test_what_a_task_logs_of_one_loader_is_returned(data, tmp_path):
    class Counting(tfzoo.ClassificationTask):
        def test_step(self, batch, batch_idx, dataloader_idx=0):
            super().test_step(batch, batch_idx, dataloader_idx)
            self.log("rows", float(len(batch.index)), batch_size=1, reduce_fx="sum")

    task = Counting(task_of(data).model, data.vocabulary)
    found = trainer_in(tmp_path).test(task, datamodule=data, verbose=False)
    rows = [one[f"rows/dataloader_idx_{k}"] for k, one in enumerate(found)]
    assert rows == [len(data.sets[name]) for name in data.test_names]


def test_a_checkpoint_of_another_tokenizer_is_refused(folder, data, tmp_path):
    trainer = trainer_in(tmp_path, max_steps=1)
    trainer.fit(task_of(data), datamodule=data)
    path = tmp_path / "one.ckpt"
    trainer.save_checkpoint(path)
    other = tfzoo.ClassificationData(root=str(folder), tokenizer="word", max_tokens=300)
    other.prepare_data()
    with pytest.raises(BadRun, match="another tokenizer"):
        trainer_in(tmp_path).fit(task_of(other), datamodule=other, ckpt_path=path)
    mixed = torch.load(path, weights_only=True)
    mixed["tfzoo"]["tokenizer"] = other.vocabulary.state()
    with pytest.raises(BadRun, match="do not fit"):
        tfzoo.ClassificationTask.from_checkpoint(mixed)


def test_rows_of_the_confusion_matrix_are_the_true_classes():
    label, predicted = torch.tensor([[0, 0, 0, 1, 1, 2], [0, 0, 1, 1, 2, 2]])
    assert confusion(label, predicted, 3).tolist() == [[2, 1, 0], [0, 1, 1], [0, 0, 1]]


@pytest.mark.parametrize("texts", [1, 500])
def test_the_calibration_error_is_the_mean_gap_over_intervals_of_probability(texts):
    draw = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(texts, 4, generator=draw)
    confidence, predicted = logits.double().softmax(-1).max(-1)
    label = predicted.where(torch.rand(texts, generator=draw) < 0.6, (predicted + 1) % 4)
    right, wanted = (predicted == label).double(), 0.0
    for k in range(15):
        inside = (confidence > k / 15) & (confidence <= (k + 1) / 15)
        if inside.any():
            gap = (right[inside].mean() - confidence[inside].mean()).abs()
            wanted += float(inside.double().mean() * gap)
    task = task_with(ClassificationTask, labels=range(4))
    scores = task.compute_scores(confidence, predicted, label)
    assert float(scores["calibration_error"]) == pytest.approx(wanted, abs=1e-12)
