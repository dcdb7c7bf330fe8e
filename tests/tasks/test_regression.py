"""Scores of numbers beside those of scipy and of numpy."""

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import pearsonr, spearmanr

from tfzoo.commands.main import main
from tfzoo.errors import BadData
from tfzoo.tasks.regression import RegressionData, RegressionScores


@pytest.mark.parametrize("cases", [100, pytest.param(1000, marks=pytest.mark.nightly)])
def test_scores_are_those_of_scipy_on_random_cases(cases):
    random = np.random.default_rng(0)
    for case in range(cases):
        n = int(random.integers(3, 40))
        label = random.normal(size=n) if case % 2 else random.integers(0, 6, n).astype(float)
        label[:2] = 0.0, 1.0
        predicted = label * random.uniform(-1, 1) + random.normal(size=n)
        scores = RegressionScores()
        for part in (slice(0, n // 2), slice(n // 2, n)):
            columns = torch.from_numpy(predicted[part]), torch.from_numpy(label[part])
            scores.update(*columns, torch.zeros(len(columns[0])))
        found = {name: float(value) for name, value in scores.compute().items()}
        error = predicted - label
        assert found["mse"] == pytest.approx(np.square(error).mean(), rel=1e-4, abs=1e-5)
        assert found["mae"] == pytest.approx(np.abs(error).mean(), rel=1e-4, abs=1e-5)
        assert found["pearson"] == pytest.approx(pearsonr(predicted, label)[0], rel=1e-4, abs=1e-5)
        assert found["spearman"] == pytest.approx(spearmanr(predicted, label)[0], abs=1e-4)


def test_what_is_no_number_is_named_by_file_and_line(tmp_path):
    """Also where some rows are held out for validation."""
    table = tmp_path / "table.csv"
    rows = [f"text {row},{'high' if row == 30 else row}" for row in range(40)]
    table.write_text("\n".join(["text,label", *rows]), "utf-8")
    data = RegressionData(train=str(table), val_fraction=0.5, tokenizer="bytes")
    with pytest.raises(BadData, match=r"table\.csv, line 32: the label 'high' is no finite number"):
        data.prepare_data()


def test_equal_labels_are_refused_once_and_leave_no_run(own_folder, capsys):
    for name in ("train", "val"):
        Path(f"{name}.tsv").write_text("text\tlabel\na b\t1\nc d\t1\n", "utf-8")
    assert main(["fit", "regression/files", "--data.root", ".", "--run", "run"]) == 2
    assert "".join(capsys.readouterr()).count("every label is 1; nothing can be learnt") == 1
    assert not Path("run").exists()
