"""Losses of a model's parts are trained and logged, and do not change what is compared."""

from types import SimpleNamespace

import pytest
import torch
from torch.testing import assert_close
from torch.utils.data import DataLoader

from tests.trainers import quiet
from tfzoo.base.registry import Entry, create
from tfzoo.learning.optim import Optim
from tfzoo.learning.task import Task
from tfzoo.models.transformer import Transformer

BATCHES = torch.randn(2, 6, 8, generator=torch.Generator().manual_seed(0))
COUNTS = (3, 5)


class Squares(Task):
    """Sums the squares of a mixture's outputs, and counts one or the other number of them."""

    entry = Entry("task", "squares", Task, "", frozenset(), (), {})
    Model = Transformer  # which the mixture is not
    tokenizer_of_data = "vocabulary"

    @classmethod
    def model_arguments(cls, tokenizer=None, data=None):
        return {}

    def __init__(self, balance: float) -> None:
        torch.manual_seed(0)
        mixture = create("feedforward", {"name": "mixture", "balance": balance}, dim=8)
        super().__init__(
            mixture, SimpleNamespace(state=dict), optim=Optim(lr=1e-3, schedule="constant")
        )
        self.gradients: list[torch.Tensor] = []

    def training_step(self, batch, batch_idx):
        loss = self.model(batch).square().sum()
        self.log_training({}, 6)
        return self.summed(loss, COUNTS[batch_idx])

    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        self.scores[0].add([batch_idx], self.model(batch).square().sum(), 1)

    def compute_scores(self):
        return {}

    def on_before_optimizer_step(self, optimizer):
        super().on_before_optimizer_step(optimizer)
        self.gradients = [p.grad.clone() for p in self.model.parameters() if p.grad is not None]


def fit(folder, balance):
    """One step of two micro-batches, and a validation."""
    task = Squares(balance)
    trainer = quiet(folder, max_steps=1, accumulate_grad_batches=2, log_every_n_steps=1)
    loader = DataLoader(list(BATCHES), batch_size=None)
    trainer.fit(task, loader, loader)
    return task, {name: float(value) for name, value in trainer.callback_metrics.items()}


@pytest.mark.filterwarnings("ignore:.*does not have many workers")
def test_the_loss_of_a_step_is_the_mean_and_the_weighted_auxiliary_losses(tmp_path):
    task, logged = fit(tmp_path, 0.1)
    _, plainly_logged = fit(tmp_path, 0.0)
    layer = Squares(0.1).model
    total = torch.zeros(())
    for batch, count in zip(BATCHES, COUNTS, strict=True):
        total = total + layer(batch).square().sum() + count * layer.auxiliary_loss
    (total / sum(COUNTS)).backward()
    wanted = [p.grad for p in layer.parameters()]
    assert_close(task.gradients, wanted, rtol=1e-5, atol=1e-6)
    assert logged["train/loss"] == plainly_logged["train/loss"], "auxiliary losses stay out of it"
    shares = [logged[f"train/expert_share/{expert}"] for expert in range(8)]
    assert sum(shares) == pytest.approx(1.0)
    assert logged["train/auxiliary_loss"] == pytest.approx(layer.auxiliary_loss.item())
    assert "train/auxiliary_loss" not in plainly_logged
    assert task.model.auxiliary_loss is None
