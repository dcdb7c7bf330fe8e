"""A learning rate that falls from layer to layer, from the top of a model to its embeddings."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby

import torch
from torch import nn

BELOW = ("embed", "position")
"""Words of a parameter's name begin so where it stands below all layers."""


def depths(module: nn.Module) -> dict[nn.Parameter, int]:
    """For each parameter in a layer or below all of them, how deep it lies: 1 in the last layer of
    its stack, 2 in the one before, and one more than in the first layer for embeddings and
    positions. The layers of a stack are the members of an ``nn.ModuleList`` that lies in no other.

    >>> layers = nn.ModuleList([nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)])
    >>> model = nn.ModuleDict({"embedding": nn.Embedding(3, 2), "layers": layers})
    >>> list(depths(model).values())
    [2, 1, 3]
    """
    found: dict[nn.Parameter, int] = {}
    stacks: list[str] = []
    for name, stack in module.named_modules():
        if isinstance(stack, nn.ModuleList) and not name.startswith(tuple(stacks)):
            stacks.append(f"{name}.")
            for index, layer in enumerate(stack):
                found.update(dict.fromkeys(layer.parameters(), len(stack) - index))
    bottom = max(found.values(), default=0) + 1
    tables = {
        one
        for part in module.modules()
        if isinstance(part, nn.Embedding)
        for one in part.parameters()
    }
    for name, parameter in module.named_parameters():
        is_below = parameter in tables or any(word.startswith(BELOW) for word in name.split("."))
        if parameter not in found and is_below:
            found[parameter] = bottom
    return found


def split(optimizer: torch.optim.Optimizer, factors: Mapping[nn.Parameter, float]) -> None:
    """Multiply the rate of each parameter by its factor, 1 if it has none. A group becomes one for
    each factor, the largest first.
    """

    def factor(parameter: nn.Parameter) -> float:
        return factors.get(parameter, 1.0)

    optimizer.param_groups[:] = [
        {**group, "params": [*params], "lr": group["lr"] * rate}
        for group in optimizer.param_groups
        for rate, params in groupby(sorted(group["params"], key=factor, reverse=True), factor)
    ]
