"""Initial values of parameters: a function of the seed and of each module's full name.

Two models that share a part initialise it alike, whatever else they hold.
"""

from __future__ import annotations

from hashlib import sha256

import torch
from torch import nn


def seed_of(*where: object) -> int:
    """A seed derived from the given values by a hash."""
    return int.from_bytes(sha256("/".join(map(str, where)).encode()).digest()[:8], "big") >> 1


def initialise(model: nn.Module, seed: int) -> None:
    """Call every module's ``reset_parameters`` under a random state of ``(seed, its full name)``.

    Children come before their parent, whose own choice counts. The global random state is left as
    it was.
    """
    with torch.random.fork_rng(devices=[]):
        for name, module in reversed(list(model.named_modules())):
            if callable(reset := getattr(module, "reset_parameters", None)):
                torch.manual_seed(seed_of(seed, name))
                reset()


@torch.no_grad()
def rescale(model: nn.Module, std: float) -> None:
    """Scale the weights of each embedding and linear map to a root mean square of ``std``."""
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            rms = module.weight.square().mean().sqrt()
            module.weight.mul_(std / rms.clamp(min=torch.finfo(rms.dtype).tiny))
