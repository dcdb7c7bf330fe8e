"""Small random components and inputs to hold contracts against."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from tfzoo.base.kinds import KINDS
from tfzoo.base.registry import Entry, create
from tfzoo.base.values import members
from tfzoo.errors import BadOption
from tfzoo.models.options import StackOptions

COMPONENT_KINDS = (
    "attention",
    "weighting",
    "mixer",
    "residual",
    "norm",
    "position",
    "feedforward",
    "pooling",
)
"""The kinds that are modules of a model."""

SIZES: Mapping[str, Any] = {
    "dim": 16,
    "heads": 2,
    "head_dim": 8,
    "max_length": 48,
    "causal": False,
    "options": StackOptions(layers=2, heads=2, max_length=48, dropout=0.0),
    "layer": 1,
    "layers": 2,
    "cross": False,
    "decoder_layers": 0,
    "dropout": 0.0,
    "norm": "layer",
    "max_steps": 100,
    "betas": (0.9, 0.98),
    "eps": 1e-9,
}
"""What a model would supply."""


def build_randomized(
    entry: Entry, options: Mapping[str, Any] | None = None, /, **sizes: Any
) -> Any:
    """A component with every parameter and every running statistic drawn at random: a start of ones
    and zeros hides mistakes.
    """
    return randomize(build(entry, options, **sizes))


def build(entry: Entry, options: Mapping[str, Any] | None = None, /, **sizes: Any) -> Any:
    """A component as its constructor leaves it."""
    known = KINDS[entry.kind].supplied
    supplied = {key: value for key, value in {**SIZES, **sizes}.items() if key in known}
    if "inner" in known:  # a part may change how its sublayer starts, so each has its own
        supplied.setdefault("inner", nn.Linear(supplied["dim"], supplied["dim"]))
    return create(entry.kind, {"name": entry.name, **(options or {})}, **supplied)


def variants(entry: Entry) -> Iterator[dict[str, Any]]:
    """The default, and each option's other choices where it has a few to choose from and the
    component takes them without another option.
    """
    yield {}
    for name, option in entry.options.items():
        for choice in members(option.annotation):
            value = not option.default if choice is bool else choice
            if isinstance(value, type) or value == option.default:
                continue
            try:
                build(entry, {name: value})
            except BadOption:
                continue
            yield {name: value}


@torch.no_grad()
def randomize(module: nn.Module, scale: float = 1.0) -> nn.Module:
    """Move every parameter and every saved statistic by a random amount; statistics only up, as a
    variance stays positive.
    """
    for parameter in module.parameters():
        size = 0.3 if parameter.dim() < 2 else 0.7 * parameter.shape[-1] ** -0.5
        parameter.add_(torch.randn_like(parameter) * scale * size)
    saved = module.state_dict(keep_vars=True)
    for name, buffer in module.named_buffers():
        if name in saved and buffer.is_floating_point():
            buffer.add_(torch.rand_like(buffer))
    return module


def reloaded(state: Mapping[str, Any]) -> Any:
    """A state dict, saved and loaded."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def lengths_to_valid(lengths: list[int], n: int, left: bool = False) -> Tensor:
    """True at real tokens: ``(b n)``."""
    place = torch.arange(n)[None]
    count = torch.tensor(lengths)[:, None]
    return place >= n - count if left else place < count


B, N, D = 3, 6, SIZES["dim"]
"""A batch of sequences with which parts are tested."""
RIGHT, LEFT = (lengths_to_valid([6, 4, 2], N, left=left) for left in (False, True))
"""True at real tokens, with padding on the right and on the left: ``(b n)``."""
