"""Scores of random cases beside those of scikit-learn, or beside sums over all tokens."""

import json
import math
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from tests.scored import task_with, values_of
from tfzoo.base.registry import registry
from tfzoo.commands.main import main
from tfzoo.errors import BadRun
from tfzoo.learning.optim import Optim
from tfzoo.learning.scoring import Scores
from tfzoo.tasks.classification import ClassificationTask
from tfzoo.tasks.language_modeling import LanguageModelingTask
from tfzoo.tasks.masked_language_modeling import MaskedLanguageModelingTask
from tfzoo.tasks.multilabel_classification import MultilabelClassificationTask
from tfzoo.testing.training import example

GOLDEN = Path(__file__).parents[1] / "golden" / "sklearn.json"
"""What scikit-learn 1.9.1 says of the 1,000 :func:`cases`, in the order of the tasks' scores."""
COUNT = pytest.mark.parametrize("count", [100, pytest.param(1000, marks=pytest.mark.nightly)])


class Case(NamedTuple):
    """Logits ``(b c)``, classes ``(b)`` or flags ``(b c)``, and the threshold of flags."""

    logits: Tensor
    label: Tensor
    threshold: float

    def parts(self):
        """Two batches, of which the first may have no text."""
        half = len(self.logits) // 3
        return [slice(half), slice(half, None)][half == 0 :]


def cases(count, *, several):
    """Few texts, many classes, rarely and mostly right ones; equal logits where ranked."""
    random, found = Random(0), []
    for _ in range(count):
        b, c = random.randrange(1, 25), random.randrange(2, 7)
        logits = torch.tensor([[random.gauss(0, 1.5) for _ in range(c)] for _ in range(b)])
        skill = random.random() * 3
        if several:
            logits = (2 * logits).round() / 2 if random.random() < 0.5 else logits
            share = random.random()
            label = torch.tensor([[int(random.random() < share) for _ in range(c)] for _ in logits])
            logits = logits + skill * label
        else:
            label = torch.tensor([random.randrange(c) for _ in range(b)])
            logits[torch.arange(b), label] += skill
        found.append(Case(logits.double(), label, random.choice([0.3, 0.5, 0.7])))
    return found


def of_task(case):
    """The scores of two batches."""
    if case.label.ndim == 2:
        task = task_with(MultilabelClassificationTask, threshold=torch.tensor(case.threshold))
    else:
        classes = case.logits.shape[1]
        own = {"class_weights": torch.ones(classes), "optim": Optim(label_smoothing=0.0)}
        task = task_with(ClassificationTask, labels=range(classes), **own)
    parts = [
        (*task.losses(case.logits[part], batch), *task.columns_of(case.logits[part], batch))
        for part in case.parts()
        for batch in [SimpleNamespace(label=case.label[part])]
    ]
    return [*values_of(task, *parts).values()]


@COUNT
@pytest.mark.parametrize("task", ["classification", "multilabel_classification"])
def test_scores_are_those_of_scikit_learn(task, count):
    golden = json.loads(GOLDEN.read_text("utf-8"))[task]
    assert len(golden) == 1000
    found = cases(count, several=task.startswith("multi"))
    for case, wanted in zip(found, golden[:count], strict=True):
        assert of_task(case) == pytest.approx(wanted, abs=1e-6)


def test_a_mean_is_exact_over_many_tokens_and_nan_where_a_value_is():
    task, scores = task_with(LanguageModelingTask), Scores()
    columns = torch.ones(3, 1)
    for row in range(100):
        scores.add([row], torch.tensor(2**25 + 1), 2**25 + 1, *columns)
    scores.add([100], torch.tensor(0.0), 0, *columns)
    assert scores.compute(task)["loss"] == 1
    scores = Scores()
    scores.add([0], torch.tensor([1.0, math.nan]), 2, *columns)
    assert scores.compute(task)["loss"].isnan()


def documents(random):
    """Of each document the cross entropies of its tokens, which are right, and its bytes."""
    found = []
    for _ in range(random.randrange(1, 9)):
        nll = [random.expovariate(0.5) for _ in range(random.randrange(1, 30))]
        right = [random.random() < 0.4 for _ in nll]
        found.append((nll, right, len(nll) + random.randrange(40)))
    return found


@COUNT
def test_scores_of_language_models_are_sums_over_all_tokens(count):
    random = Random(0)
    for _ in range(count):
        rows = documents(random)
        causal: list[tuple] = []
        masked: list[tuple] = []
        cut = random.randrange(len(rows))
        for part in (rows[:cut], rows[cut:]) if cut else (rows,):
            sums = [[sum(nll), sum(right), len(nll), size] for nll, right, size in part]
            nll, right, tokens, size = torch.tensor(sums).T
            loss = nll.sum() + len(part)
            causal.append((loss, tokens, nll, tokens, size))
            masked.append((loss, tokens, nll, right, tokens))
        every = [one for nll, _, _ in rows for one in nll]
        hits = [one for _, right, _ in rows for one in right]
        bits = sum(every) / math.log(2) / sum(size for *_, size in rows)
        mean = sum(every) / len(every)
        wanted = {"loss": mean + len(rows) / len(every)}
        wanted["perplexity"] = math.exp(mean)
        found = values_of(task_with(LanguageModelingTask), *causal)
        assert found == pytest.approx({**wanted, "bits_per_byte": bits}, rel=1e-5)
        found = values_of(task_with(MaskedLanguageModelingTask), *masked)
        assert found == pytest.approx({**wanted, "accuracy": sum(hits) / len(hits)}, rel=1e-5)


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
