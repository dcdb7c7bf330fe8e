"""Compiled layers train as others do."""

from functools import partial

import lightning.pytorch as L
import pytest
import torch

import tfzoo
from tests.exact import close
from tests.tiny import number_pairs
from tests.trainers import quiet
from tfzoo.learning.settings import Compute
from tfzoo.models.transformer_layer import compiled

SMALL = {"dim": 16, "heads": 2, "layers": 1, "dropout": 0.0}
OPTIM = {"lr": 1e-3, "schedule": "constant"}


class Seen(L.Callback):
    """Losses, and gradients of the first step."""

    def __init__(self) -> None:
        self.losses: list[float] = []
        self.gradients: dict[str, torch.Tensor] = {}

    def on_before_optimizer_step(self, trainer, pl_module, optimizer):
        if not self.gradients:
            named = [(name, p.grad) for name, p in pl_module.named_parameters()]
            self.gradients = {name: grad.clone() for name, grad in named if grad is not None}

    def on_train_batch_end(self, trainer, pl_module, *_):
        self.losses.append(pl_module.normalizer.loss.item())


def trained(task, data, folder):
    """What is seen of four steps over batches of several lengths."""
    seen = Seen()
    trainer = quiet(folder, max_steps=4, limit_val_batches=0, callbacks=[seen])
    trainer.fit(task, datamodule=data)
    return seen


def test_each_of_many_models_is_compiled(monkeypatch):
    made, real = [], torch.compile

    def counting(graph, given):
        made.append(graph)
        return graph.forward

    counted = partial(real, dynamic=True, backend=counting)
    monkeypatch.setattr(torch, "compile", lambda run, **_: counted(run))
    compiled.cache_clear()
    torch.compiler.reset()
    for count, dim in enumerate(range(2, 22, 2), 1):  # PyTorch stops at eight by itself
        model = tfzoo.Encoder(dim, 2, 1, mixer="none").train()
        Compute(compile=True).apply(model)
        model(torch.randn(2, 3, dim)).sum().backward()
        assert len(made) == count
    torch.compiler.reset()
    compiled.cache_clear()


@pytest.mark.nightly  # the compiler takes a minute for the layers of an encoder and a decoder
def test_a_compiled_training_equals_one_that_is_not(tmp_path):
    data, found = number_pairs(), {}
    for choice in (False, True):
        recipe = {"seed": 1, "model": SMALL, "optim": OPTIM, "compute": {"compile": choice}}
        task = tfzoo.TranslationTask.build(recipe, data.tokenizers).double()
        found[choice] = trained(task, data, tmp_path)
    assert len(found[False].losses) == 4
    close(found[True].losses, found[False].losses)
    close(found[True].gradients, found[False].gradients)
    assert compiled.cache_info().currsize == 1, "nothing was compiled"
