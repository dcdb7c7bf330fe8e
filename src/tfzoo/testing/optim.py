"""Contracts of every optimiser and of every learning-rate schedule."""

from __future__ import annotations

import math
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


@contract("optimizer")
def a_step_moves_every_parameter(entry: Entry) -> None:
    """A step moves every parameter of the module against its gradient."""
    trained = Trained(entry)
    before = trained.weights()
    trained.step()
    for name, parameter in trained.named_parameters():
        moved = parameter.detach() - before[name]
        if parameter.grad is None or not (moved * parameter.grad).sum() < 0:
            raise Violation(f"{name} is not moved against its gradient")


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
    for name, wanted in one.weights().items():
        assert_same(other.get_parameter(name), wanted, f"training goes on, {name}", 0.0)


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


UPDATES = (*range(1, 102), 1000, 4000, 10_000, 100_000)


def factors(entry: Entry, options: Mapping[str, Any] | None) -> list[Tensor]:
    """The factor at each of many updates, near and far."""
    schedule = build(entry, options)
    return [torch.tensor([schedule.factor(update) for update in UPDATES])]


@contract("schedule")
def a_factor_of_the_peak_at_every_update(entry: Entry) -> None:
    """``factor(update)`` is between 0 and 1 for every update from 1 on, over 0 at the first and
    over 0.9 at some.
    """
    factors = [build(entry).factor(update) for update in UPDATES]
    for update, factor in zip(UPDATES, factors, strict=True):
        if not (math.isfinite(factor) and 0 <= factor <= 1):
            raise Violation(f"factor({update}) = {factor}, which is not between 0 and 1")
    if not factors[0] > 0:
        raise Violation("the first update, number 1, changes nothing")
    if not max(factors) > 0.9:
        raise Violation(f"far from the peak all the time: at most {max(factors)}")


@contract("schedule")
def the_same_update_has_the_same_factor(entry: Entry) -> None:
    """``factor`` depends on the update alone, so that training can resume."""
    used, again = build(entry), build(entry)
    forwards = [used.factor(update) for update in UPDATES]
    if forwards[::-1] != [again.factor(update) for update in reversed(UPDATES)]:
        raise Violation("a factor depends on what was asked before")
