"""A model that gives NaN answers nothing: one line says so."""

import pytest
import torch

from tfzoo.base.registry import registry
from tfzoo.commands.main import main
from tfzoo.errors import BadRun
from tfzoo.testing.training import example


@pytest.mark.parametrize("name", registry("task").names())
def test_a_run_whose_weights_are_not_finite_answers_nothing(name, tmp_path, capsys):
    task, _ = example(registry("task").entry(name))
    with torch.no_grad():
        next(task.model.parameters()).view(-1)[-1] = torch.nan
    task.save_pretrained(tmp_path / "run")
    (tmp_path / "lines.txt").write_text("a b [MASK]\n", "utf-8")
    capsys.readouterr()
    assert main(["predict", str(tmp_path / "run"), str(tmp_path / "lines.txt")]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "is not finite: its training has diverged" in err.splitlines()[-1]


SCORED = ("classification", "multilabel_classification", "regression")


@pytest.mark.parametrize("name", SCORED)
def test_finite_weights_that_overflow_give_no_answer_with_a_score(name):
    task, data = example(registry("task").entry(name))
    with torch.no_grad():
        for parameter in task.float().model.parameters():
            parameter.normal_(std=1e38)
    with pytest.raises(BadRun, match="the model gives NaN, so it has no answer"):
        task.predict(["a b [MASK]"])
    with pytest.raises(BadRun, match="the model gives NaN, so it has no answer"):
        task.predictions(data, "test")
