"""The first number that is not finite is named by where it is, not by where it shows."""

import torch
from torch import nn

from tfzoo.learning.nan_detection import first_non_finite


class Times(nn.Module):
    """Forward and backward multiply by different numbers."""

    def __init__(self, forward: float = 1.0, backward: float = 1.0) -> None:
        super().__init__()
        self.factors = forward, backward

    def forward(self, x):
        forward, backward = self.factors
        out = x * forward
        out.register_hook(lambda grad: grad * backward)
        return out


def chain(**factors):
    names = ("first", "second", "third")
    inner = nn.Sequential()
    for name in names:
        inner.add_module(
            name, nn.Sequential(nn.Linear(2, 2), Times(*factors.get(name, (1.0, 1.0))))
        )
    return inner


def blamed(model, scale=1.0):
    return first_non_finite(model, [lambda: model(torch.ones(1, 2)).sum() * scale])


def test_a_loss_can_be_at_fault_alone():
    assert blamed(chain(), float("nan")) == "the loss"
    assert blamed(chain()) == ""


def test_all_micro_batches_are_looked_at():
    model = nn.Linear(2, 2)
    batches = [torch.ones(1, 2), torch.full((1, 2), float("inf")), torch.ones(1, 2)]
    assert (
        first_non_finite(model, [lambda x=x: model(x).sum() for x in batches])
        == "the output of the model"
    )


class Mixed(nn.Module):
    """Its outputs are a number, nothing, and ids."""

    def forward(self, x):
        return x / 0, None, x.long()


def test_outputs_that_are_no_numbers_are_passed_over():
    mixed = Mixed()
    model = nn.ModuleDict({"mixed": mixed})
    found = first_non_finite(model, [lambda: mixed(torch.ones(1, 2))[0].sum()])
    assert found == "the output of model.mixed"


def test_it_leaves_nothing_behind():
    model = chain(second=(float("nan"), 1.0))
    blamed(model)
    assert not any(module._forward_hooks for module in model.modules())
    assert all(p.grad is None for p in model.parameters())
