"""Finds the feed-forward layers of a model and makes their replacements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tfzoo.base.registry import Spec, create, registry
from tfzoo.contracts import FeedForward
from tfzoo.errors import BadOption
from tfzoo.feedforward._layers import Gated, Plain
from tfzoo.swapping.norms import NotSwappable

TORCH_LAYERS = (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)
SAMPLE = 3
"""Tokens on which a layer is tried."""


@dataclass(frozen=True)
class FoundFeedForward:
    """The maps of a feed-forward layer as ``(out in)`` matrices and biases: ``inner`` (of a gated
    one the gate above the value), ``outer``; the dropout of the hidden layer and of the output.
    """

    inner: Tensor
    inner_bias: Tensor | None
    outer: Tensor
    outer_bias: Tensor | None
    dropout: float = 0.0
    output_dropout: float = 0.0

    @property
    def gated(self) -> bool:
        """Whether ``inner`` is a gate and a value."""
        return self.inner.shape[0] == 2 * self.outer.shape[1]


class SwappedFeedForward(nn.Module):
    """A component in the place of a feed-forward layer, with the layer's dropout."""

    def __init__(self, component: FeedForward, dropout: float, output_dropout: float) -> None:
        super().__init__()
        self.component, self.dropout, self.output_dropout = component, dropout, output_dropout

    def forward(self, x: Tensor) -> Tensor:
        """``(b n d) -> (b n d)``"""
        y: Tensor = self.component(x, self.dropout if self.training else 0.0)
        return F.dropout(y, self.output_dropout, self.training)


def is_map(module: nn.Module) -> bool:
    """Whether a module is a linear map: torch's, or the ``Conv1D`` of ``transformers``."""
    return type(module) is nn.Linear or type(module).__name__ == "Conv1D"


def matrix(module: Any) -> Tensor:
    """``(out in)``"""
    weight: Tensor = module.weight
    return weight if type(module) is nn.Linear else weight.T


def maps_of(module: nn.Module) -> list[tuple[str, nn.Module]]:
    """The linear maps among the children, by name."""
    return [(name, child) for name, child in module.named_children() if is_map(child)]


def pairs(module: nn.Module) -> Iterator[tuple[str, str]]:
    """The names of two maps among the children, from ``d`` to a width over it and back."""
    maps = maps_of(module)
    for name, inner in maps:
        for other, outer in maps:
            wide, narrow = matrix(inner).shape
            if wide > narrow and matrix(outer).shape == (narrow, wide):
                yield name, other


def is_feedforward(module: nn.Module) -> bool:
    """Whether a module contains two maps that could be those of a feed-forward layer, or one of
    them (BERT's ``Intermediate``).
    """
    if isinstance(module, SwappedFeedForward):
        return True
    if isinstance(module, TORCH_LAYERS):
        return isinstance(module.linear1, nn.Linear)
    half = type(module).__name__.endswith("Intermediate") and len(maps_of(module)) == 1
    return half or any(pairs(module))


def find_feedforward(module: Any) -> FoundFeedForward:
    """Read the maps of a feed-forward layer.

    Raises:
        NotSwappable: it is part of a larger module, or computes something else than the components
            do.
    """
    kind = type(module).__name__
    if isinstance(module, SwappedFeedForward):
        return found_in_component(module)
    if type(module) in TORCH_LAYERS:
        first, second = module.linear1, module.linear2
        return FoundFeedForward(
            first.weight, first.bias, second.weight, second.bias, float(module.dropout.p)
        )
    if not any(pairs(module)):
        raise NotSwappable(f"{kind} is one half of it; the other is in a module with a residual")
    maps = maps_of(module)
    if len(maps) != len([*module.parameters()]) - sum(has_bias(one) for _, one in maps):
        names = " and ".join(dict.fromkeys(name for pair in pairs(module) for name in pair))
        raise NotSwappable(f"{names} of {kind} stand among other parts, not in a module alone")
    return tried(module, maps)


def has_bias(module: nn.Module) -> bool:
    """Whether a map has a bias."""
    return getattr(module, "bias", None) is not None


def found_in_component(module: SwappedFeedForward) -> FoundFeedForward:
    """The maps of a component that was swapped in."""
    inner, outer = (getattr(module.component, name, None) for name in ("inner", "outer"))
    if not isinstance(inner, nn.Linear) or not isinstance(outer, nn.Linear):
        raise NotSwappable(f"{module.component.entry.name} has no two maps: swap before it")
    return FoundFeedForward(
        inner.weight, inner.bias, outer.weight, outer.bias, module.dropout, module.output_dropout
    )


@torch.no_grad()
def tried(module: nn.Module, maps: list[tuple[str, nn.Module]]) -> FoundFeedForward:
    """The maps of a module in the order in which some component computes its output."""
    like = matrix(maps[0][1])
    if like.is_meta:
        raise NotSwappable("its weights are on the device meta")
    width = min(like.shape)
    x = torch.arange(SAMPLE * width, device=like.device).view(1, SAMPLE, width).sin().to(like.dtype)
    seen: list[tuple[float, int]] = []
    drops = [one for one in module.children() if isinstance(one, nn.Dropout)]
    hooks = [
        one.register_forward_pre_hook(lambda drop, args: seen.append((drop.p, args[0].shape[-1])))
        for one in drops
    ]
    training = module.training
    try:
        y = module.eval()(x)
    except Exception as error:  # of any kind: it is somebody else's
        raise NotSwappable(f"it does not take (b n d) alone: {type(error).__name__}") from None
    finally:
        module.train(training)
        for hook in hooks:
            hook.remove()
    for found in orders([one for _, one in maps]):
        if any(same(y, expected) for expected in outputs(found, x)):
            hidden = found.outer.shape[1]
            return FoundFeedForward(
                found.inner,
                found.inner_bias,
                found.outer,
                found.outer_bias,
                max((p for p, width in seen if width == hidden), default=0.0),
                max((p for p, width in seen if width != hidden), default=0.0),
            )
    raise NotSwappable("it computes none of tfzoo's feed-forward layers with two maps or a gate")


def outputs(found: FoundFeedForward, x: Tensor) -> Iterator[Tensor]:
    """What each component with an activation between such maps computes: ``(b n d) -> (b n d)``."""
    kind, known = Gated if found.gated else Plain, registry("feedforward")
    wide = F.linear(x, found.inner, found.inner_bias)
    for name in known.names():
        entry = known.entry(name)
        if not issubclass(entry.cls, kind):
            continue
        for options in ({}, {"approximate": "tanh"}) if "approximate" in entry.options else ({},):
            made: Any = create("feedforward", {"name": name, "hidden": 1, **options}, dim=1)
            if found.gated:
                gate, value = wide.chunk(2, -1)
                hidden = made.activation(gate.clone()) * value
            else:
                hidden = made.activation(wide.clone())  # which may change it in place
            yield F.linear(hidden, found.outer, found.outer_bias)


def same(y: Any, expected: Tensor) -> bool:
    """Whether two outputs are equal up to rounding."""
    if not isinstance(y, Tensor) or y.shape != expected.shape:
        return False
    tolerance = 20 * max(torch.finfo(dtype).eps for dtype in (y.dtype, torch.float32))
    return torch.allclose(y, expected, rtol=tolerance, atol=tolerance)


def orders(maps: list[Any]) -> Iterator[FoundFeedForward]:
    """The maps in the orders that their shapes allow."""
    outer = [one for one in maps if matrix(one).shape[1] > matrix(one).shape[0]]
    inner = [one for one in maps if one not in outer]
    if len(outer) != 1 or any(matrix(one).shape != matrix(outer[0]).T.shape for one in inner):
        return
    for one in [inner, inner[::-1]] if len(inner) == 2 else [inner] if len(inner) == 1 else []:
        biases = [each.bias if has_bias(each) else None for each in one]
        bias = None
        if any(each is not None for each in biases):
            bias = torch.cat(
                [
                    matrix(each).new_zeros(len(matrix(each))) if b is None else b
                    for each, b in zip(one, biases, strict=True)
                ]
            )
        out_bias = outer[0].bias if has_bias(outer[0]) else None
        weight = torch.cat([matrix(each) for each in one])
        yield FoundFeedForward(weight, bias, matrix(outer[0]), out_bias)


def component_of(found: FoundFeedForward, spec: Spec) -> tuple[FeedForward, str]:
    """A component with the weights of a layer, and a note on whether it has them. Weights carry
    over where it has maps of the same shapes; without options, it has the layer's width and biases.

    Raises:
        BadOption: it has a loss of its own, which the model would not add to its loss.
    """
    entry, options = registry("feedforward").options(spec)
    if "auxiliary_loss" in entry.traits:
        raise BadOption(
            f"feedforward {entry.name!r} has a loss of its own, which the model would not add: "
            "swap another in"
        )
    dim, hidden = found.outer.shape
    biased = found.inner_bias is not None or found.outer_bias is not None
    for name, value in (("hidden", hidden), ("bias", biased)):
        if name in entry.options:
            options = {name: value, **options}
    made: Any = create("feedforward", {"name": entry.name, **options}, dim=dim)
    made.to(device=found.outer.device, dtype=found.outer.dtype)
    return made, "" if load(made, found) else "new weights"


@torch.no_grad()
def load(made: Any, found: FoundFeedForward) -> bool:
    """Copy the maps of a layer into a component; False if it has no maps of these shapes."""
    layers: list[Any] = [getattr(made, name, None) for name in ("inner", "outer")]
    weights, biases = (found.inner, found.outer), (found.inner_bias, found.outer_bias)
    copies = list(zip(layers, weights, biases, strict=True))
    for layer, weight, bias in copies:
        if not isinstance(layer, nn.Linear) or layer.weight.shape != weight.shape:
            return False
        if bias is not None and not has_bias(layer):
            return False
    for layer, weight, bias in copies:
        layer.weight.copy_(weight)
        if has_bias(layer):
            layer.bias.copy_(torch.zeros_like(layer.bias) if bias is None else bias)
    return True


def feedforward_replacement(
    module: Any, found: FoundFeedForward, spec: Spec
) -> tuple[SwappedFeedForward, str]:
    """The module in the place of a feed-forward layer, and a note for the report."""
    component, note = component_of(found, spec)
    made = SwappedFeedForward(component, found.dropout, found.output_dropout)
    trains = any(one.requires_grad for one in maps_or_self(module).parameters())
    return made.train(module.training).requires_grad_(trains), note


def maps_or_self(module: Any) -> nn.Module:
    """The maps of one of torch's layers; any other module itself."""
    if type(module) in TORCH_LAYERS:
        return nn.ModuleList([module.linear1, module.linear2])
    return module  # type: ignore[no-any-return]  # its class is not known


def place(model: nn.Module, name: str, old: Any, new: SwappedFeedForward) -> None:
    """Put a replacement into the model. One of torch's layers calls its maps itself: the first
    becomes the replacement, the activation, the dropout and the second map do nothing.
    """
    if type(old) not in TORCH_LAYERS:
        model.set_submodule(name, new)
        return
    old.linear1, old.linear2 = new, nn.Identity()
    old.activation, old.dropout = nn.Identity(), nn.Identity()
