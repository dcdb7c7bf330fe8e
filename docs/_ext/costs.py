"""What a part costs, in a layer of an encoder."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

import tfzoo
from docs._ext.tables import table
from tfzoo.base.registry import Entry
from tfzoo.models.options import StackOptions
from tfzoo.training.cost import Cost, step_cost

DIM, HEADS, TOKENS = 512, 8, 128
NOTE = f"""\
An encoder of one layer, width {DIM}, {HEADS} heads, one text of {TOKENS} tokens: parameters, FLOPs
of the forward pass, and bytes of activations ([what a model costs](../../cost.md))."""


def section(entry: Entry) -> str:
    """The section of a part's page: a table."""
    own, whole = measured(entry.kind, entry.name)
    rows = [line(f"`{entry.name}` itself", own), line("the encoder with it", whole)]
    usual = getattr(StackOptions, entry.kind, None)
    if usual not in (None, entry.name):
        rows.append(line(f"the encoder with `{usual}`", measured(entry.kind, str(usual))[1]))
    return f"{table(['', 'parameters', 'FLOPs', 'activations'], rows, right=3)}\n\n{NOTE}"


def line(what: str, cost: Cost) -> list[str]:
    """A line of the table."""
    return [what, *(f"{number:,}" for number in vars(cost).values())]


@cache
def measured(kind: str, name: str) -> tuple[Cost, Cost]:
    """The cost of a part, and of an encoder of one layer with it."""
    found = step_cost(
        lambda: build(kind, name),
        lambda model: model(torch.zeros(1, TOKENS, DIM, requires_grad=True)).sum(),
    )
    own = [cost for part, cost in found.parts.items() if part.endswith(f" {kind} {name}")]
    return total(own), found.forward


def build(kind: str, name: str) -> torch.nn.Module:
    """An encoder of one layer; with a pooling after it for a pooling."""
    options: dict[str, Any] = {} if kind == "pooling" else {kind: name}
    encoder = tfzoo.Encoder(DIM, HEADS, 1, dropout=0.0, **options)
    if kind == "pooling":
        return torch.nn.Sequential(encoder, tfzoo.create(kind, name, dim=DIM))
    return encoder


def total(costs: list[Cost]) -> Cost:
    """The sum of several."""
    return Cost(
        parameters=sum(one.parameters for one in costs),
        flops=sum(one.flops for one in costs),
        activations=sum(one.activations for one in costs),
    )
