"""Finds the feed-forward layers of a model and makes their replacements."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tfzoo.base.linear import Linear
from tfzoo.base.registry import Spec, create, registry
from tfzoo.components.feedforward._layers import Gated, Plain
from tfzoo.contracts import FeedForward
from tfzoo.errors import BadOption
from tfzoo.swapping.attentions import NotSwappable
from tfzoo.swapping.norms import equal, output_of

KNOWN = "those of PyTorch's Transformer layers, and modules of two or three linear maps alone"
TORCH_LAYERS = (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)

Map = tuple[Tensor, Tensor | None]
"""The weight ``(out in)`` and the bias of a linear map."""


@dataclass(frozen=True)
class FoundFeedForward:
    """The maps of a feed-forward layer (``inner`` of a gated one is the gate above the value), the
    dropout of the hidden layer and of the output.
    """

    inner: Map
    outer: Map
    dropout: float = 0.0
    output_dropout: float = 0.0


class SwappedFeedForward(nn.Module):
    """A component in the place of a feed-forward layer, with the layer's dropout."""

    def __init__(self, component: FeedForward, dropout: float, output_dropout: float) -> None:
        super().__init__()
        self.component, self.dropout, self.output_dropout = component, dropout, output_dropout

    def forward(self, x: Tensor) -> Tensor:
        """``(b n d) -> (b n d)``"""
        y: Tensor = self.component(x, self.dropout if self.training else 0.0)
        return F.dropout(y, self.output_dropout, self.training)


def matrix(module: Any) -> Tensor:
    """``(out in)``"""
    weight: Tensor = module.weight
    return weight if isinstance(module, nn.Linear) else weight.T


def joined(*maps: Any) -> Map:
    """Linear maps, one below the other; without bias unless all have one."""
    biases = [one.bias for one in maps if getattr(one, "bias", None) is not None]
    bias = torch.cat(biases) if len(biases) == len(maps) else None
    return torch.cat([matrix(one) for one in maps]), bias


def maps_of(module: nn.Module) -> dict[str, nn.Module]:
    """The linear maps among the children: torch's, or the ``Conv1D`` of ``transformers``."""
    return {
        name: one
        for name, one in module.named_children()
        if type(one) in (nn.Linear, Linear) or type(one).__name__ == "Conv1D"
    }


def pairs(maps: Mapping[str, nn.Module]) -> Iterator[tuple[str, str]]:
    """The names of two maps, from ``d`` to a width over it and back."""
    for name, inner in maps.items():
        for other, outer in maps.items():
            wide, narrow = matrix(inner).shape
            if wide > narrow and matrix(outer).shape == (narrow, wide):
                yield name, other


def is_part(name: str, module: nn.Module) -> bool:
    """Whether a module contains two maps that could be those of a feed-forward layer."""
    if isinstance(module, TORCH_LAYERS):
        return isinstance(module.linear1, nn.Linear)
    if isinstance(module, SwappedFeedForward):
        return True
    return any(pairs(maps_of(module)))


def find_feedforward(module: Any) -> FoundFeedForward:
    """Read the maps of a feed-forward layer."""
    if isinstance(module, SwappedFeedForward):
        inner, outer = (getattr(module.component, name, None) for name in ("inner", "outer"))
        if not isinstance(inner, nn.Linear) or not isinstance(outer, nn.Linear):
            raise NotSwappable(f"{module.component.entry.name} has no two maps: swap before it")
        drops = module.dropout, module.output_dropout
        return FoundFeedForward(joined(inner), joined(outer), *drops)
    if type(module) in TORCH_LAYERS:
        inner, outer = joined(module.linear1), joined(module.linear2)
        return FoundFeedForward(inner, outer, float(module.dropout.p))
    maps = maps_of(module)
    known = {one for child in maps.values() for one in child.parameters()}
    if known != {*module.parameters()}:
        names = " and ".join(next(pairs(maps)))
        raise NotSwappable(
            f"{names} stand in no module of their own, whose place a part could take; norm=, "
            "attention= and weighting= can be swapped"
        )
    return tried(module, [*maps.values()])


@torch.no_grad()
def tried(module: nn.Module, maps: list[nn.Module]) -> FoundFeedForward:
    """The maps of a module in the order in which some component computes its output."""
    like = matrix(maps[0])
    seen: list[tuple[float, int]] = []
    hooks = [
        one.register_forward_pre_hook(lambda drop, args: seen.append((drop.p, args[0].shape[-1])))
        for one in module.children()
        if isinstance(one, nn.Dropout)
    ]
    try:
        x, y = output_of(module, min(like.shape), like)
    finally:
        for hook in hooks:
            hook.remove()
    for found in orders(maps):
        if any(equal(y, expected) for expected in outputs(found, x)):
            hidden = found.outer[0].shape[1]
            inside, after = ([p for p, n in seen if (n == hidden) is hid] for hid in (True, False))
            return replace(
                found, dropout=max(inside, default=0), output_dropout=max(after, default=0)
            )
    raise NotSwappable("it computes none of tfzoo's feed-forward layers with two maps or a gate")


def outputs(found: FoundFeedForward, x: Tensor) -> Iterator[Tensor]:
    """What each component with an activation between such maps computes: ``(b n d) -> (b n d)``."""
    known, wide = registry("feedforward"), F.linear(x, *found.inner)
    gated = found.inner[0].shape[0] == 2 * found.outer[0].shape[1]  # a gate above a value
    for name in known.names():
        entry = known.entry(name)
        if not issubclass(entry.cls, Plain) or issubclass(entry.cls, Gated) != gated:
            continue
        for options in ({}, {"approximate": "tanh"}) if "approximate" in entry.options else ({},):
            made: Any = create("feedforward", {"name": name, "hidden": 1, **options}, dim=1)
            hidden = made.between(wide.clone())  # which may change it in place
            yield F.linear(hidden, *found.outer)


def orders(maps: list[Any]) -> Iterator[FoundFeedForward]:
    """The maps in the orders that their shapes allow."""
    outer = [one for one in maps if matrix(one).shape[1] > matrix(one).shape[0]]
    inner = [one for one in maps if one not in outer]
    if len(outer) == 1 and all(matrix(one).shape == matrix(outer[0]).T.shape for one in inner):
        for one in permutations(inner) if len(inner) <= 2 else ():
            yield FoundFeedForward(joined(*one), joined(*outer))


@torch.no_grad()
def load(made: Any, found: FoundFeedForward) -> bool:
    """Copy the maps of a layer into a component; False if it has no maps of these shapes."""
    layers: list[Any] = [getattr(made, name, None) for name in ("inner", "outer")]
    pairs = list(zip(layers, (found.inner, found.outer), strict=True))
    if not all(
        isinstance(layer, nn.Linear)
        and layer.weight.shape == weight.shape
        and (bias is None or layer.bias is not None)
        for layer, (weight, bias) in pairs
    ):
        return False
    for layer, (weight, bias) in pairs:
        layer.weight.copy_(weight)
        if layer.bias is not None:
            layer.bias.copy_(torch.zeros_like(layer.bias) if bias is None else bias)
    return True


def replacement(model: nn.Module, name: str, specs: Mapping[str, Spec]) -> tuple[nn.Module, str]:
    """What takes the place of a feed-forward layer, and a note for the report. Weights carry over
    where the component has maps of the same shapes; without options, it has the layer's width and
    biases.
    """
    module: Any = model.get_submodule(name)
    entry, options = registry("feedforward").options(specs["feedforward"])
    found = find_feedforward(module)
    if "auxiliary_loss" in entry.traits:
        raise BadOption(
            f"feedforward {entry.name!r} has a loss of its own, which the model would not add: "
            "swap another in"
        )
    dim, hidden = found.outer[0].shape
    biased = found.inner[1] is not None or found.outer[1] is not None
    for key, value in (("hidden", hidden), ("bias", biased)):
        if key in entry.options:
            options = {key: value, **options}
    component: Any = create("feedforward", {"name": entry.name, **options}, dim=dim)
    component.to(found.outer[0])
    loaded = load(component, found)
    made = SwappedFeedForward(component, found.dropout, found.output_dropout)
    maps = [module.linear1, module.linear2] if type(module) in TORCH_LAYERS else [module]
    trains = any(one.requires_grad for part in maps for one in part.parameters())
    made.train(module.training).requires_grad_(trains)
    return made, "" if loaded else "new weights"


def identity(x: Tensor) -> Tensor:
    """In place of an activation that the replacement of its layer has."""
    return x
