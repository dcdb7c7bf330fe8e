"""What a training step of a recipe's model costs, counted without computing it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tfzoo.base import adapters
from tfzoo.costs.count import MODEL, Cost, Counter
from tfzoo.learning.cross_entropy import cross_entropy
from tfzoo.models.language_model import LanguageModel
from tfzoo.models.transformer import Transformer

OUTPUT = "output and loss"
"""The part of the output projection and the loss."""


@dataclass(frozen=True)
class Sizes:
    """A batch: ``rows`` texts of ``length`` tokens, of source and target each, without padding."""

    rows: int
    length: int


def loss(model: Any, sizes: Sizes, counter: Counter) -> Tensor:
    """The loss of a training step."""
    ids = 1 + torch.arange(sizes.rows * sizes.length).view(sizes.rows, -1) % 3
    if isinstance(model, Transformer | LanguageModel):
        hidden = (
            model.hidden(ids, ids, source_padding="none", target_padding="none")
            if isinstance(model, Transformer)
            else model.hidden(ids, padding="none")
        )
        with counter.running(OUTPUT):
            return cross_entropy(hidden.flatten(0, 1), model.output_weight, ids.flatten())[0]
    logits = model(ids, padding="none")
    with counter.running(OUTPUT):
        labels = (ids if logits.ndim == 3 else ids[:, 0]) % logits.shape[-1]  # of tokens, or texts
        return F.cross_entropy(logits.flatten(0, -2), labels.flatten())


def count(build: Callable[[], nn.Module], sizes: Sizes) -> dict[str, Cost]:
    """The cost of a forward pass in training mode by part, and that of the backward pass.

    Nothing is computed: the tensors have shapes and no data. Where a part looks at the data in
    order to know what to do, everything is computed.
    """
    try:
        with adapters.shapes_alone():
            return count_in(build(), sizes)
    except adapters.shapes_depend_on_data():
        return count_in(build(), sizes)


def count_in(model: nn.Module, sizes: Sizes) -> dict[str, Cost]:
    """The cost of a step of ``model`` by part."""
    counter = Counter(model.train())
    with counter.counting():
        with counter.running(MODEL):
            total = loss(model, sizes, counter)
        total.backward()
    return dict(counter.costs)


@dataclass(frozen=True)
class Growth:
    """``constant + linear L + quadratic L^2``: the products of a text of ``L`` tokens."""

    constant: float
    linear: float
    quadratic: float


def growth(build: Callable[[], nn.Module], longest: int) -> dict[str, Growth]:
    """How the products of each part grow with the length, from three lengths up to ``longest``."""
    lengths = [longest // 4, longest // 2, longest]
    found = [count(build, Sizes(1, length)) for length in lengths]
    fits = {
        part: np.polyfit(lengths, [costs[part].products for costs in found], 2)
        for part in found[-1]
    }
    return {part: Growth(*(float(one) for one in reversed(fit))) for part, fit in fits.items()}
