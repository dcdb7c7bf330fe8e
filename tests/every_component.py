"""One call of every component, for promises that hold for all of them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tfzoo.base.registry import create, registry
from tfzoo.contracts import Attention, FeedForward, Position
from tfzoo.masks import Mask

B, H, N, C = 2, 2, 7, 4
DIM = H * C
VALID = torch.arange(N) < torch.tensor([[7], [5]])
SUPPLIED = {
    "attention": {"heads": H, "head_dim": C, "layer": 1, "layers": 2},
    "norm": {"dim": DIM},
    "position": {"dim": DIM, "heads": H, "head_dim": C, "max_length": 300, "causal": False},
    "feedforward": {"dim": DIM},
    "pooling": {"dim": DIM},
}
EVERY = [(kind, name) for kind in SUPPLIED for name in registry(kind).names()]
every_component = pytest.mark.parametrize(("kind", "name"), EVERY)


def made(kind: str, name: str) -> nn.Module:
    torch.manual_seed(0)
    module: nn.Module = create(kind, name, **SUPPLIED[kind])
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5)
    return module


def inputs(kind: str) -> list[Tensor]:
    """In float64: queries, keys and values, or one sequence of hidden states."""
    torch.manual_seed(1)
    shape = (3, B, H, N, C) if kind == "attention" else (1, B, N, DIM)
    return [x.requires_grad_() for x in torch.randn(shape, dtype=torch.float64).unbind()]


def outputs(module: nn.Module, given: list[Tensor]) -> list[Tensor]:
    """All that a component computes, as a block calls it."""
    pos, length = torch.arange(200, 200 + N)[None], VALID.sum(1, keepdim=True) + 200
    if isinstance(module, Attention):
        mask = Mask(causal=True, keys=VALID)
        return [module(*given, mask=mask, temperature=1.5)]
    if isinstance(module, Position):
        found: list[Any] = [module.embed(given[0], pos, length), module.bias(pos, pos)]
        rotation = module.angles(pos)
        found.append(rotation and rotation(given[0].unflatten(-1, (H, C)).transpose(1, 2)))
        return [one for one in found if one is not None]
    if isinstance(module, FeedForward):
        return [module(given[0])]
    return [module(given[0], VALID)]
