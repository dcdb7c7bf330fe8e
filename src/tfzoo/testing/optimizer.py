"""Contracts of every optimiser."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from tfzoo.base.registry import Entry
from tfzoo.testing.contract import Violation, assert_same, contract
from tfzoo.testing.samples import build, reloaded

LR, DECAY = 0.01, 0.1


class Trained(nn.Module):
    """An embedding, two layers of a matrix, a bias and a norm, and an output projection, with the
    optimiser of an entry.
    """

    def __init__(self, entry: Entry, options: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        torch.default_generator.manual_seed(1)
        self.embedding = nn.Embedding(5, 4)
        layers = [nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Tanh()) for _ in range(2)]
        self.layers = nn.ModuleList(layers)
        self.output = nn.Linear(4, 5, bias=False)
        self.optimizer = build(entry, options).configure(self, LR, DECAY)

    def step(self, number: int = 0, size: float = 1.0) -> None:
        """One step on random gradients of this number and size."""
        torch.default_generator.manual_seed(number)
        for parameter in self.parameters():
            parameter.grad = torch.randn_like(parameter) * size
        self.optimizer.step()

    def weights(self) -> dict[str, Tensor]:
        """A copy of each parameter, by name."""
        return {name: one.detach().clone() for name, one in self.named_parameters()}


def trained_weights(entry: Entry, options: Mapping[str, Any] | None) -> list[Tensor]:
    """The weights after two steps."""
    trained = Trained(entry, options)
    for number in range(2):
        trained.step(number)
    return list(trained.weights().values())


def assert_same_weights(trained: Trained, wanted: Mapping[str, Tensor], what: str) -> None:
    """Raise :class:`Violation` unless each parameter is what is wanted."""
    for name, parameter in trained.named_parameters():
        assert_same(parameter, wanted[name], f"{what}, {name}", 0.0)


@contract("optimizer")
def a_step_moves_every_parameter(entry: Entry) -> None:
    """A step moves every parameter of the module against its gradient; at a rate of 0 in every
    parameter group, as a schedule may set it, not at all.
    """
    trained = Trained(entry)
    before = trained.weights()
    trained.step()
    for name, parameter in trained.named_parameters():
        moved = parameter.detach() - before[name]
        if parameter.grad is None or not (moved * parameter.grad).sum() < 0:
            raise Violation(f"{name} is not moved against its gradient")
    before = trained.weights()
    for group in trained.optimizer.param_groups:
        group["lr"] = 0.0
    trained.step(1)
    assert_same_weights(trained, before, "at a rate of 0")


@contract("optimizer")
def the_state_dict_restores_it(entry: Entry) -> None:
    """With a saved and loaded ``state_dict``, training continues bit for bit."""
    one, other = Trained(entry), Trained(entry)
    for number in range(3):
        one.step(number)
    other.load_state_dict(deepcopy(one.state_dict()))
    other.optimizer.load_state_dict(reloaded(one.optimizer.state_dict()))
    for number in range(3, 6):
        one.step(number)
        other.step(number)
    assert_same_weights(other, one.weights(), "training goes on")


@contract("optimizer")
def weight_decay_spares_vectors(entry: Entry) -> None:
    """With gradients of 0, weight decay moves parameters of two or more dimensions towards 0, and
    biases and the weights of norms not at all.
    """
    trained = Trained(entry)
    before = trained.weights()
    trained.step(size=0.0)
    for name, parameter in trained.named_parameters():
        if parameter.dim() <= 1:
            assert_same(parameter, before[name], f"{name}, under weight decay", 0.0)
        elif not parameter.norm() < before[name].norm():
            raise Violation(f"weight decay does not shrink {name}")
