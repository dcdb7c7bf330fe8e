"""What a part costs, in a layer of an encoder."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

import tfzoo
from docs._ext.tables import table
from tfzoo.base.registry import Entry
from tfzoo.commands.cost import COLUMNS
from tfzoo.models.options import StackOptions
from tfzoo.training.step_cost import Cost, Counter

DIM, HEADS, TOKENS = 512, 8, 128
NOTE = f"""\
An encoder of one layer, width {DIM}, {HEADS} heads, one text of {TOKENS} tokens: parameters,
operations of matrix products, values that all other operations compute, and bytes that are saved
for the backward pass ([what a model costs](../../cost.md))."""


def section(entry: Entry) -> str:
    """The section of a part's page: a table."""
    own, whole = measured(entry.kind, entry.name)
    rows = [line(f"`{entry.name}` itself", own), line("the encoder with it", whole)]
    usual = getattr(StackOptions, entry.kind, None)
    if usual not in (None, entry.name):
        rows.append(line(f"the encoder with `{usual}`", measured(entry.kind, str(usual))[1]))
    return f"{table(['', *COLUMNS[1:5]], rows, right=4)}\n\n{NOTE}"


def line(what: str, cost: Cost) -> list[str]:
    """A line of the table."""
    numbers = (cost.parameters, cost.products, cost.values, cost.saved)
    return [what, *(f"{int(number):,}" for number in numbers)]


@cache
def measured(kind: str, name: str) -> tuple[Cost, Cost]:
    """The cost of a part, and of an encoder of one layer with it."""
    counter = Counter(build(kind, name))
    with counter.counting():
        counter.model(torch.zeros(1, TOKENS, DIM, requires_grad=True))
    own = [cost for part, cost in counter.costs.items() if part.endswith(f" {kind} {name}")]
    return total(own), total(list(counter.costs.values()))


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
        products=sum(one.products for one in costs),
        values=sum(one.values for one in costs),
        saved=sum(one.saved for one in costs),
        parameters=sum(one.parameters for one in costs),
    )
