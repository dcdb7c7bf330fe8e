"""Finds the tables of positions of a model and makes their replacements."""

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from tfzoo.base.registry import Spec, create, registry
from tfzoo.contracts import Position
from tfzoo.errors import BadOption
from tfzoo.models.rules import acts_on_scores
from tfzoo.swapping.attentions import NotSwappable

KNOWN = (
    "nn.Embedding tables called wpe, or with position in their names; rotary and relative "
    "positions act inside of the attentions"
)

TABLE = re.compile(r"(^|_)(pos|position|positions|positional)(_|$)|^wpe$")
"""Names of the tables of positions."""


class SwappedPosition(nn.Module):
    """A component in the place of ``nn.Embedding(max_length, dim)`` of positions."""

    like: Tensor

    def __init__(self, component: Position, max_length: int, dim: int) -> None:
        super().__init__()
        self.component, self.num_embeddings, self.embedding_dim = component, max_length, dim
        self.register_buffer("like", torch.empty(0), persistent=False)

    def forward(self, positions: Tensor) -> Tensor:
        """``(...) -> (... d)``: what the component adds to a token at each position."""
        rows = positions.view(1, -1) if positions.dim() != 2 else positions
        nothing = self.like.new_zeros(*rows.shape, self.embedding_dim)
        return self.component.embed(nothing, rows).view(*positions.shape, self.embedding_dim)

    @property
    def weight(self) -> Tensor:
        """``(max_length, d)``: the whole table, for models that read it (CLIP)."""
        return self(torch.arange(self.num_embeddings, device=self.like.device))  # type: ignore[no-any-return]


def is_part(name: str, module: nn.Module) -> bool:
    """Whether a module of this name is what gives a model its positions."""
    if isinstance(module, SwappedPosition):
        return True
    named = TABLE.search(name.rpartition(".")[2]) or "Position" in type(module).__name__
    return isinstance(module, nn.Embedding) and bool(named)


def replacement(model: nn.Module, name: str, specs: Mapping[str, Spec]) -> tuple[nn.Module, str]:
    """The replacement of a table of positions, and a note for the report. The table carries over to
    ``learned``.
    """
    old: Any = model.get_submodule(name)
    swapped, kind = isinstance(old, SwappedPosition), type(old).__name__
    if not swapped and kind != "Embedding":
        raise NotSwappable(f"{kind} is called with something else than positions")
    entry = registry("position").options(specs["position"])[0]
    if acts_on_scores(entry):
        raise BadOption(
            f"position {entry.name!r} acts in the attentions, and a table of positions is added to "
            "tokens: swap in one that does the same (sinusoidal, learned, none)"
        )
    if "needs_length" in entry.traits:
        raise BadOption(f"position {entry.name!r} needs lengths, which no table is called with")
    length, dim = old.num_embeddings, old.embedding_dim
    like: Tensor = old.like if swapped else old.weight
    made: Any = create("position", specs["position"], dim=dim, max_length=length)
    new = SwappedPosition(made, length, dim).to(device=like.device, dtype=like.dtype)
    table = getattr(old.component, "table", None) if swapped else old.weight
    if isinstance(table, Tensor) and entry.name == "learned":
        with torch.no_grad():
            made.table.copy_(table)
        made.table.requires_grad_(table.requires_grad)
        table = None
    return new.train(old.training), "" if table is None else "table dropped"
