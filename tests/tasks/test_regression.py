"""Scores of numbers beside those of scipy and of numpy."""

import numpy as np
import pytest
import torch
from scipy.stats import pearsonr, spearmanr

from tests.scored import task_with
from tests.trainers import quiet
from tfzoo.errors import BadData, BadOption
from tfzoo.tasks.regression import RegressionAnswer, RegressionData, RegressionTask


def scores_of(predicted, label):
    found = task_with(RegressionTask).compute_scores(predicted, label)
    return {name: float(value) for name, value in found.items()}


@pytest.mark.parametrize("cases", [100, pytest.param(1000, marks=pytest.mark.nightly)])
def test_scores_are_those_of_scipy_on_random_cases(cases):
    random = np.random.default_rng(0)
    for case in range(cases):
        n = int(random.integers(3, 40))
        label = random.normal(size=n) if case % 2 else random.integers(0, 6, n).astype(float)
        label[:2] = 0.0, 1.0
        predicted = label * random.uniform(-1, 1) + random.normal(size=n)
        label, predicted = (one + random.choice([0.0, 1e6, 1.7e9]) for one in (label, predicted))
        found = scores_of(torch.from_numpy(predicted), torch.from_numpy(label))
        error = predicted - label
        assert found["mse"] == pytest.approx(np.square(error).mean())
        assert found["mae"] == pytest.approx(np.abs(error).mean())
        assert found["pearson"] == pytest.approx(pearsonr(predicted, label)[0], abs=1e-6)
        assert found["spearman"] == pytest.approx(spearmanr(predicted, label)[0], abs=1e-9)


def correlations(predicted, label):
    found = scores_of(*(torch.tensor(one, dtype=torch.float64) for one in (predicted, label)))
    return found["pearson"], found["spearman"]


@pytest.mark.parametrize("constant", [0.0, 0.1, 1.7e9])
def test_constants_correlate_with_nothing(constant):
    """Also where their mean is not exactly the constant, as of 0.1."""
    steady, other = [constant] * 7, [1.0, 2.0, 4.0, 3.0, 7.0, 5.0, 9.0]
    assert all(np.isnan(correlations(steady, other)))
    assert all(np.isnan(correlations(other, steady)))
    assert all(np.isnan(correlations([*other[:-1], np.nan], other)))


def test_numbers_that_fp32_would_round_are_learnt_and_told_apart(tmp_path):
    """Seconds since 1970, minutes apart."""
    seconds = [1_700_000_000 + 60 * row + row % 7 / 8 for row in range(40)]
    rows = [(f"text {row}", number) for row, number in enumerate(seconds)]
    data = RegressionData(train=rows, val=rows, tokenizer="bytes")
    data.prepare_data()
    data.setup("fit")
    read = {one.item() for batch in data.val_dataloader() for one in batch.label}
    assert read == {*seconds}
    task = RegressionTask.build({"model": {"dim": 8, "heads": 1, "layers": 1}}, data.vocabulary)
    trainer = quiet(max_steps=2, precision="bf16-mixed")
    trainer.fit(task, datamodule=data)
    assert (task.mean.item(), task.std.item()) == (np.mean(seconds), np.std(seconds))
    assert task.constant_loss(data) == pytest.approx(1.0)  # validation is training
    (scores,) = quiet().validate(task.float(), data, verbose=False)
    told = task.predict([text for text, _ in rows])
    errors = np.square([answer.value for answer in told] - np.array(seconds))
    assert scores["val/mse"] == pytest.approx(errors.mean(), rel=1e-4)
    assert scores["val/loss"] == pytest.approx(errors.mean() / np.var(seconds), rel=1e-4)
    lines = map(task.output_line, told)
    assert [*map(float, lines)] == pytest.approx([one.value for one in told], rel=0, abs=0.05)
    with pytest.raises(BadOption, match="train with labels less a constant"):
        task.model_to_export()
    with pytest.raises(BadOption, match="take bf16-mixed"):
        quiet(max_steps=1, precision="bf16-true").fit(task, datamodule=data)


def test_a_number_has_the_digits_that_six_of_the_deviation_would_have():
    for std, line in ((0.02, "1234.5678912"), (7.0, "1234.56789"), (3e3, "1234.57"), (2e8, "1000")):
        task = task_with(RegressionTask, std=torch.tensor(std, dtype=torch.float64))
        assert RegressionTask.output_line(task, RegressionAnswer(1234.5678912)) == line


def test_what_is_no_number_is_named_by_file_and_line(tmp_path):
    """Also where some rows are held out for validation."""
    table = tmp_path / "table.csv"
    rows = [f"text {row},{'high' if row == 30 else row}" for row in range(40)]
    table.write_text("\n".join(["text,label", *rows]), "utf-8")
    data = RegressionData(train=str(table), val_fraction=0.5, tokenizer="bytes")
    with pytest.raises(BadData, match=r"table\.csv, line 32: the label 'high' is no finite number"):
        data.prepare_data()
    table.write_text("text,label\na,1\nb,1_000\nc,1e3\n")
    with pytest.raises(BadData, match=r"line 3: the label '1_000' is no finite number"):
        RegressionData(train=str(table), val=str(table), tokenizer="bytes").prepare_data()
