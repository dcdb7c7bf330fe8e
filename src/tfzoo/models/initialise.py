"""How parameters start: a function of the seed and of each one's full name, whatever else the model
holds.

Cells of a sweep that share a parameter so start it alike.
"""

from __future__ import annotations

from hashlib import sha256

import torch
from torch import nn


def seed_of(*where: object) -> int:
    """A seed for one place: the same for the same words, unrelated for others."""
    return int.from_bytes(sha256("/".join(map(str, where)).encode()).digest()[:8], "big") >> 1


def initialise(model: nn.Module, seed: int) -> None:
    """Give every parameter its initial value: ``f(seed, its full name)``. The global random state
    is left as it was.
    """
    with torch.random.fork_rng(devices=[]):
        for name, module in reversed(
            list(model.named_modules())
        ):  # a module's own choice overrides its children's
            if callable(reset := getattr(module, "reset_parameters", None)):
                torch.manual_seed(seed_of(seed, name))
                reset()


@torch.no_grad()
def rescale(model: nn.Module, std: float) -> None:
    """Scale each embedding and linear map, as it was started, to entries of this root mean square."""
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            rms = module.weight.square().mean().sqrt()
            module.weight.mul_(std / rms.clamp(min=torch.finfo(rms.dtype).tiny))
