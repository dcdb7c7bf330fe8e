"""Optimisers are PyTorch's, and a recipe chooses one by name."""

import re

import lightning.pytorch as L
import pytest
import torch
from torch import nn
from torch.testing import assert_close
from torch.utils.data import DataLoader

import tfzoo
from tests.tiny import ready
from tests.trainers import quiet
from tfzoo import list_components
from tfzoo.commands.main import main
from tfzoo.errors import BadOption, UnknownName
from tfzoo.tasks.language_modeling import LanguageModelingTask

BETAS, EPS = (0.8, 0.9), 1e-3
MODEL = {"dim": 8, "heads": 2, "layers": 1}


def model():
    torch.manual_seed(0)
    parts = {"attention": "bilinear", "position": "learned", "max_length": 9}
    return tfzoo.TransformerClassifier(12, 3, **MODEL, **parts)


def muon(made):
    """By the names that the model gives to its parameters."""
    named = dict(made.named_parameters())
    hidden = [p for name, p in named.items() if ".layers." in name and p.dim() == 2]
    others = [p for name, p in named.items() if ".layers." not in name or p.dim() != 2]
    options = {"weight_decay": 0.2, "momentum": 0.7, "adjust_lr_fn": "match_rms_adamw"}
    yield torch.optim.Muon(hidden, lr=0.1, **options)
    for decay, group in ((0.2, [p for p in others if p.dim() > 1]), (0.0, others)):
        left = [p for p in group if decay or p.dim() <= 1]
        yield torch.optim.AdamW(left, lr=0.1, betas=BETAS, eps=EPS, weight_decay=decay)


def two(cls, **options):
    """One optimiser with weight decay, and one without for the vectors."""

    def make(made):
        for decay in (0.2, 0.0):
            chosen = [p for p in made.parameters() if (p.dim() > 1) == (decay > 0)]
            yield cls(chosen, lr=0.1, weight_decay=decay, **options)

    return make


@pytest.mark.parametrize(
    ("optimizer", "theirs"),
    [
        ("adamw", two(torch.optim.AdamW, betas=BETAS, eps=EPS)),
        ("adam", two(torch.optim.Adam, betas=BETAS, eps=EPS)),
        ({"name": "sgd", "momentum": 0.7}, two(torch.optim.SGD, momentum=0.7)),
        ({"name": "muon", "momentum": 0.7}, muon),
    ],
)
def test_two_steps_are_those_of_torch(optimizer, theirs):
    one, other = model(), model()
    options = {} if "sgd" in str(optimizer) else {"betas": BETAS, "eps": EPS}
    options |= {"lr": 0.1, "weight_decay": 0.2, "schedule": "constant"}
    settings = tfzoo.Optim(optimizer=optimizer, **options)
    made = [settings.configure(one, max_steps=9)["optimizer"]], list(theirs(other))
    for step in range(2):
        for module, optimizers in zip((one, other), made, strict=True):
            torch.manual_seed(step)
            for parameter in module.parameters():
                parameter.grad = torch.randn_like(parameter)
            for each in optimizers:
                each.step()
    # Orthogonalisation is in bf16 on both sides; the rest differs by the order of operations.
    assert_close(dict(one.named_parameters()), dict(other.named_parameters()), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"freeze": ["weight"]}, r"optim.freeze is for tfzoo's tasks.* requires_grad_\(False\)"),
        ({"average": 0.9}, "optim.average is for tfzoo's tasks.* WeightAveraging"),
    ],
)
def test_what_an_own_module_would_not_follow_is_refused(options, says):
    with pytest.raises(BadOption, match=says):
        tfzoo.Optim(**options).configure(nn.Linear(2, 2), max_steps=9)


@pytest.mark.parametrize(
    ("optim", "error", "says"),
    [
        ({"optimizer": "sdg"}, UnknownName, "Did you mean 'sgd'"),
        ({"optimizer": {"name": "sgd", "momentun": 0.9}}, BadOption, "Did you mean 'momentum'"),
        ({"optimizer": {"name": "adamw", "momentum": 0.9}}, BadOption, "It has no options"),
        ({"optimizer": "sgd", "eps": 1e-8}, BadOption, "optim.eps: optimizer 'sgd' has no eps"),
    ],
)
def test_what_an_optimiser_does_not_have_is_refused_when_the_recipe_is_read(optim, error, says):
    with pytest.raises(error, match=re.escape(says)):
        tfzoo.Optim(**optim)


@pytest.fixture(scope="module")
def data():
    lists = {"name": "listops", "train": 60, "val": 4, "test": 4, "max_length": 30}
    return ready(tfzoo.ClassificationData(dataset=lists, tokenizer="word", max_tokens=200))


@pytest.mark.parametrize("name", list_components()["optimizer"])
def test_training_continues_exactly_with_every_optimiser(name, data, tmp_path):
    """Also after a skipped step, and with clipped gradients."""
    batch = next(iter(data.train_dataloader()))
    batches = DataLoader([batch], batch_size=None)  # an epoch is a step

    def trained(steps, checkpoint=None):
        optim = {"optimizer": name, "lr": 1e-3, "weight_decay": 0.1}
        task = tfzoo.ClassificationTask.build({"model": MODEL, "optim": optim}, data.vocabulary)
        options = {"gradient_clip_val": 0.5, "limit_val_batches": 0, "callbacks": [Broken(at=1)]}
        trainer = quiet(max_steps=steps, **options)
        trainer.fit(task, batches, ckpt_path=checkpoint, weights_only=True)
        trainer.save_checkpoint(tmp_path / f"{steps}.ckpt")
        assert task.skipped == 1
        return task

    whole = trained(5)
    trained(3)
    resumed = trained(5, tmp_path / "3.ckpt")
    for weight, other in zip(whole.parameters(), resumed.parameters(), strict=True):
        assert bool(weight.isfinite().all())
        assert_close(weight, other, rtol=0, atol=0)


class Broken(L.Callback):
    """Makes the loss of one step not finite."""

    def __init__(self, at: int) -> None:
        self.at = at

    def on_before_backward(self, trainer, pl_module, loss):
        if trainer.global_step == self.at:
            pl_module.normalizer.total = pl_module.normalizer.total * float("nan")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"freeze": ["encodr"]}, "optim.freeze: no parameter's name has 'encodr'. Did you mean"),
        ({"freeze": ["*"]}, "leaves nothing to train"),
    ],
)
def test_what_cannot_be_frozen_is_refused(options, message):
    with pytest.raises(BadOption, match=message):
        tfzoo.Optim(**options).check_model(model())


def test_what_is_frozen_stays_as_it_is(own_folder, monkeypatch, no_pictures):
    saved = {}

    def keep(task, *_):
        state = task.model.state_dict().items()
        saved[task.trainer.global_step] = {name: one.clone() for name, one in state}

    monkeypatch.setattr(LanguageModelingTask, "on_train_batch_start", keep)
    monkeypatch.setattr(LanguageModelingTask, "on_train_end", keep)
    small = "--model.dim 16 --model.layers 2 --data.dataset.train 40 --data.max_tokens 256"
    few = "--data.dataset.val 8 --data.dataset.test 8 --trainer.max_steps 3 --optim.freeze"
    recipe = "language_modeling/agreement"
    assert main(["fit", recipe, *small.split(), *few.split(), "[layers.0]"]) == 0
    for name, first in saved[0].items():
        assert torch.equal(saved[3][name], first) == (".layers.0." in name), name
