"""Initial values of parameters, derived from the seed and the full name of each module; or those of
a trained model.

A module thus gets the same initial values in two models, whatever their other modules are.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import torch
from torch import Tensor, nn

from tfzoo.base.linear import Experts
from tfzoo.base.values import check_range
from tfzoo.models.embedding import Embedding


def seed_of(*where: object) -> int:
    """A seed, computed as a hash of the values."""
    return int.from_bytes(sha256("/".join(map(str, where)).encode()).digest()[:8], "big") >> 1


def initialise(model: nn.Module, seed: int) -> None:
    """Call ``reset_parameters`` of every module, with a random seed derived from ``seed`` and the
    module's full name.

    A parent is called after its children and may change their values. The CPU's random state is
    restored afterwards; that of accelerators is not.
    """
    devices = {tensor.device.type for tensor in (*model.parameters(), *model.buffers())}
    # torch.manual_seed seeds all kinds of devices, which takes most of the time of a small model.
    on_cpu = devices <= {"cpu", "meta"}
    reseed = torch.default_generator.manual_seed if on_cpu else torch.manual_seed
    with torch.random.fork_rng(devices=[]):
        for name, module in reversed(list(model.named_modules())):
            if callable(reset := getattr(module, "reset_parameters", None)):
                reseed(seed_of(seed, name))
                reset()


def reset_output(model: Any) -> None:
    """Initialise an untied output projection from ``N(0, 1/dim)``, or ``N(0, init_std^2)`` if the
    model has one, the bias as 0, and apply ``init_std`` to all other modules.
    """
    if model.init_std is not None:
        rescale(model, model.init_std)
    if model.projection is not None:
        nn.init.normal_(model.projection, std=model.init_std or model.projection.shape[1] ** -0.5)
    if model.output_bias is not None:
        nn.init.zeros_(model.output_bias)


@torch.no_grad()
def rescale(model: nn.Module, std: float) -> None:
    """Scale the weight of each embedding and linear layer to a root mean square of ``std``, except
    embeddings with a standard deviation of their own.
    """
    check_range("init_std", std, gt=0)
    for module in model.modules():
        if isinstance(module, Embedding) and module.std is not None:
            continue
        if isinstance(module, nn.Linear | nn.Embedding | Experts):
            rms = module.weight.square().mean().sqrt()
            module.weight.mul_(std / rms.clamp(min=torch.finfo(rms.dtype).tiny))


def can_fill(model: nn.Module) -> bool:
    """Whether a state dict is all that a model lacks which was built on the device ``meta``: no
    buffer holds more than its dtype without being saved, and no two modules share a parameter.
    """
    saved = model.state_dict().keys()
    tables = [one for name, one in model.named_buffers() if name not in saved and one.numel()]
    own = [id(one) for module in model.modules() for one in module.parameters(recurse=False)]
    return not tables and len(own) == len(set(own))


def fill(model: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Give a model that was built on the device ``meta`` these tensors, which are not copied and
    keep their dtype.
    """
    model.load_state_dict(state, strict=False, assign=True)
    dtype = next((one.dtype for one in model.parameters()), None)
    for module in model.modules():
        for name, buffer in module.named_buffers(recurse=False):
            if buffer.is_meta:
                setattr(module, name, torch.empty_like(buffer, device="cpu", dtype=dtype))
