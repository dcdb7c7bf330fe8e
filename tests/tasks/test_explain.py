"""Explanations are logged at logging steps alone, are right, and change nothing."""

import csv
import itertools
import math
from typing import Any

import lightning.pytorch as L
import pytest
import torch
from torch.testing import assert_close
from torch.utils.data import DataLoader

import tfzoo
from tests.daily import sampled
from tests.tiny import number_pairs, ready
from tests.trainers import quiet
from tfzoo.base.registry import registry
from tfzoo.errors import BadOption
from tfzoo.learning import explain as explain_module
from tfzoo.learning.explain import Explain, statistics, variance
from tfzoo.masks import Mask
from tfzoo.training.progress import MetricsFile

MODEL: dict[str, Any] = {"dim": 16, "heads": 2, "layers": 2, "dropout": 0.1}
SIDES = {"encoder", "decoder", "cross"}


@pytest.fixture(scope="module")
def data():
    lists = {"name": "listops", "train": 100, "val": 4, "test": 4}
    texts = tfzoo.ClassificationData(dataset=lists, tokenizer="word", max_tokens=300)
    return {"translation": number_pairs(), "classification": ready(texts)}


def task_of(data, task="translation", **model):
    optim = {"lr": 1e-2, "schedule": {"name": "linear", "warmup": 4}}
    recipe = {"seed": 1, "model": {**MODEL, **model}, "optim": optim}
    if task == "classification":
        return tfzoo.ClassificationTask.build(recipe, data.vocabulary)
    recipe["model"] = {"encoder": {"norm": "batch"}, **recipe["model"]}
    return tfzoo.TranslationTask.build(recipe, data.tokenizers)


def fit(task, data, folder, explain, **options):
    """Train five steps; the rows that were logged."""
    file = MetricsFile(folder)
    file.path.unlink(missing_ok=True)
    settings = {"log_every_n_steps": 2, "gradient_clip_val": 1.0, "limit_val_batches": 0, **options}
    callbacks = [Explain()] if explain else []
    quiet(folder, max_steps=5, callbacks=callbacks, logger=file, **settings).fit(task, data)
    with file.path.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    return [{key: float(value) for key, value in row.items() if value} for row in rows]


@pytest.mark.parametrize(("task", "accumulate"), [("translation", 2), ("classification", 1)])
def test_training_ends_with_the_same_weights_bit_for_bit(
    data, tmp_path, monkeypatch, task, accumulate
):
    ends, looked = [], []

    def looking(trainer, *given):
        looked.append(trainer.global_step)
        return statistics(trainer, *given)

    monkeypatch.setattr(explain_module, "statistics", looking)
    for explain in (False, True):
        trained = task_of(data[task], task)
        rows = fit(trained, data[task], tmp_path, explain, accumulate_grad_batches=accumulate)
        ends.append(trained.state_dict())
        assert [row["step"] for row in rows] == [1, 3]
        assert all(any(key.startswith("explain/") for key in row) == explain for row in rows)
    assert looked == [1, 3, 4], "at logging steps and the last alone, once each"
    assert_close(ends[1], ends[0], rtol=0, atol=0)


ATTENTIONS = registry("attention").names()


@pytest.mark.parametrize("attention", sampled(ATTENTIONS, ["additive", "scaled_dot_product"]))
def test_every_attention_is_explained(data, tmp_path, attention):
    task = task_of(data["translation"], attention=attention)
    first = fit(task, data["translation"], tmp_path, True)[0].items()
    found = {key[len("explain/") :]: value for key, value in first if key.startswith("explain/")}
    assert {key.partition("/")[0] for key in found} == SIDES
    for side in SIDES:
        assert 0 < found[f"{side}/largest_weight"] <= 1
        assert found[f"{side}/entropy"] >= 0
        for number in ("own_token", "embedding_variance"):
            assert (f"{side}/{number}" in found) == (side != "cross")


class Quiet:
    """As much of a Trainer as looking needs."""

    class precision_plugin:  # noqa: N801
        train_step_context = staticmethod(torch.no_grad)


def seen(task, data):
    batch = next(iter(data.train_dataloader()))
    return {key: float(value) for key, value in statistics(Quiet(), task, batch).items()}


def test_the_numbers_are_those_of_what_is_known(data):
    pairs = data["translation"]
    task = task_of(pairs, dropout=0.5, norm="none", encoder={})
    blocks = [one for one in task.model.modules() if hasattr(one, "query")]
    first = seen(task, pairs)
    assert seen(task, pairs) == first, "no dropout, nothing drawn"
    assert task.model.training
    for block in blocks:
        block.temperature = 2.0
    assert seen(task, pairs)["encoder/score_variance"] < first["encoder/score_variance"]
    for block in blocks:
        torch.nn.init.zeros_(block.query.weight)  # all scores alike
    flat = seen(task, pairs)
    batch = next(iter(pairs.train_dataloader()))
    lengths = (batch.source[:8] != 0).sum(1).double()
    targets = [torch.arange(1, int(n) + 1).double() for n in (batch.target[:8, 1:] != 0).sum(1)]
    known = {
        **{f"{side}/score_variance": 0.0 for side in SIDES},
        "encoder/entropy": (lengths * lengths.log()).sum() / lengths.sum(),
        "encoder/largest_weight": len(lengths) / lengths.sum(),
        "encoder/own_token": len(lengths) / lengths.sum(),  # the first of equals is the largest
        "decoder/largest_weight": (1 / torch.cat(targets)).mean(),  # no padding, no future
    }
    for key, wanted in known.items():
        assert flat[key] == pytest.approx(float(wanted), rel=1e-5), key


def test_sharded_parameters_are_gathered_for_the_pass_alone_also_if_it_fails(data, monkeypatch):
    calls, task = [], task_of(data["translation"])
    for name in ("unshard", "reshard"):
        monkeypatch.setattr(explain_module, name, lambda model, name=name: calls.append(name))

    def fail(batch):
        calls.append("pass")
        raise InterruptedError

    monkeypatch.setattr(task, "forward_batch", fail)
    with pytest.raises(InterruptedError):
        seen(task, data["translation"])
    assert calls == ["unshard", "pass", "reshard"]


class Own(L.LightningModule):
    """Somebody's own module around a stack of tfzoo."""

    def __init__(self):
        super().__init__()
        self.encoder = tfzoo.Encoder(dim=8, heads=2, layers=1, dropout=0.5)

    def training_step(self, x, batch_idx):
        return self.encoder(x).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Explained(Own):
    def forward_batch(self, x):
        return self.encoder(x)


def test_an_own_module_around_a_stack_of_tfzoo_is_explained(tmp_path):
    loader = DataLoader(torch.randn(8, 5, 8), batch_size=4)
    file = MetricsFile(tmp_path)
    trainer = quiet(tmp_path, max_steps=2, log_every_n_steps=1, callbacks=[Explain()], logger=file)
    trainer.fit(Explained(), loader)
    first, _ = csv.DictReader(file.path.read_text().splitlines())
    assert 0 < float(first["explain/encoder/entropy"]) <= math.log(5)


def test_a_module_that_cannot_be_explained_is_told_what_it_lacks(tmp_path):
    trainer = quiet(tmp_path, max_steps=1, callbacks=[Explain()])
    with pytest.raises(BadOption, match=r"Own needs .* a method forward_batch\(batch\)"):
        trainer.fit(Own(), DataLoader(torch.randn(8, 5, 8), batch_size=4))


def test_the_variance_of_scores_is_over_the_keys_that_a_query_sees():
    scores = torch.randn(2, 3, 4, 5, dtype=torch.float64)
    assert_close(variance(scores, Mask()), scores.var(-1, unbiased=False))
    keys = torch.tensor([[True, True, False, True, True], [False, True, True, True, False]])
    mask = Mask(causal=True, keys=keys, start=0)
    found = variance(scores, mask)
    seen = mask.boolean(4, 5, scores.device)
    assert seen is not None
    for b, q in itertools.product(range(2), range(4)):
        visible = scores[b, :, q, seen[b, 0, q]]
        wanted = visible.var(-1, unbiased=False) if visible.shape[1] else torch.zeros(3).double()
        assert_close(found[b, :, q], wanted)
