"""Contracts about the matrices that a residual connection may scale."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from tfzoo.base.registry import Entry
from tfzoo.contracts import value_matrices
from tfzoo.testing.contract import CLEAR, Violation, contract
from tfzoo.testing.probes import PROBES, inputs
from tfzoo.testing.samples import SIZES, build, build_randomized, variants


@contract("mixer", "feedforward")
@torch.no_grad()
def value_matrices_say_the_truth(entry: Entry) -> None:
    """Values pass what ``value_matrices`` gives: with all of it at 0 the input has no influence,
    unless it has some without any matrix, and with a matrix at 0 that it leaves out, the input
    still has. In a feed-forward layer and a mixer that ``attends``, the input has none with any one
    of them at 0: none of them makes scores or choices.
    """
    for options in variants(entry):
        part = build_randomized(entry, options)
        for name, one in part.named_parameters():
            if is_bias(name):  # which an expert or a gate adds, whatever passes its matrices
                one.zero_()
        own = {name: one for name, one in part.named_parameters() if one.dim() > 1}
        given = value_matrices(part)
        names = [name for one in given for name, mine in own.items() if mine is one]
        if len(set(names)) < len(given):
            raise Violation("value_matrices gives something other than matrices of its own")
        if not influence(entry, part, list(own.values())) and influence(entry, part, given):
            raise Violation(f"values pass more than {names}, which value_matrices gives")
        for name, one in own.items():
            carries = not influence(entry, part, [one])
            if carries and name not in names:
                raise Violation(f"values pass {name}, which value_matrices leaves out")
            every = entry.kind == "feedforward" or "attends" in entry.traits
            if every and name in names and not (carries or is_bias(name)):
                raise Violation(f"no value passes {name}, which value_matrices gives")


def is_bias(name: str) -> bool:
    """Whether this is the name of a bias."""
    return "bias" in name.rpartition(".")[2]


def influence(entry: Entry, part: nn.Module, zeroed: Sequence[Tensor]) -> bool:
    """Whether the output depends on the input with these matrices at 0."""
    kept = [one.clone() for one in zeroed]
    for one in zeroed:
        one.zero_()
    given = inputs()
    run: Callable[..., list[Tensor]] = PROBES[entry.kind]
    out, other = (run(part, {**given, "x": x})[0] for x in (given["x"], given["x"].flip(2)))
    for one, value in zip(zeroed, kept, strict=True):
        one.copy_(value)
    return bool((out - other).abs().max() > CLEAR)


class Routed(nn.Module):
    """A sublayer that says which of its matrices values pass."""

    def __init__(self) -> None:
        super().__init__()
        self.value = nn.Linear(SIZES["dim"], SIZES["dim"])
        self.router = nn.Linear(SIZES["dim"], SIZES["dim"])

    def value_matrices(self) -> list[Tensor]:
        return [self.value.weight]

    def forward(self, x: Tensor) -> Tensor:
        return self.value(x) * self.router(x).sigmoid()  # type: ignore[no-any-return]


@contract("residual")
def of_its_sublayer_it_scales_value_matrices_alone(entry: Entry) -> None:
    """The sublayer starts as it did alone, but for one factor of what ``value_matrices`` gives."""
    inner = Routed()
    before = {name: value.clone() for name, value in inner.state_dict().items()}
    build(entry, inner=inner)
    for name, value in inner.state_dict().items():
        ratio = value / before[name]
        same = ratio.max() - ratio.min() < CLEAR if name == "value.weight" else (ratio == 1).all()
        if not bool(same):
            raise Violation(f"it changes {name} of a sublayer")
