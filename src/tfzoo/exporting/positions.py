"""Positional encodings as CTranslate2 has them: a table that is added to the embeddings, a rotation
of queries and keys, or a bias of scores by distance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from tfzoo.contracts import Position
from tfzoo.exporting import probes
from tfzoo.exporting.failures import counterpart, no_counterpart
from tfzoo.models.stack import Stack

LONGEST = 2048
"""The positions in a table of an encoding that has no longest one."""
NEAR = 1024
"""Biases are exact for distances under this, and beyond it of the nearest of as many steps."""
FURTHEST = 8 * NEAR
"""All larger distances have the bias of this one."""
BASE = 10_000.0
"""The frequencies of a rotation are stated relative to those of this base."""


@dataclass
class Encoded:
    """Options of the specification of a stack, and attributes of parts of it.

    ``attention`` are attributes of the self-attention of each layer.
    """

    options: dict[str, Any] = field(default_factory=dict)
    table: Any = None
    attention: Mapping[str, Any] = field(default_factory=dict)

    def fill(self, spec: Any) -> None:
        """Set the attributes."""
        if self.table is not None:
            spec.position_encodings.encodings = self.table
        for layer in spec.layer:
            for name, value in self.attention.items():
                setattr(layer.self_attention, name, value)


def encode_positions(stack: Stack) -> Encoded:
    """The positional encoding of a stack.

    Raises:
        BadOption: CTranslate2 has nothing like it.
    """
    position, own = stack.position, type(stack.position)
    if stack.needs_length:
        raise no_counterpart(position)
    hooks = (
        own.embed is not Position.embed,
        own.angles is not Position.angles,
        own.bias is not Position.bias,
    )
    found = None
    if not any(hooks[1:]):
        found = added(position, stack.dim, stack.max_positions or LONGEST)
    elif hooks == (False, True, False):
        found = rotated(position)
    elif hooks == (False, False, True):
        found = biased(position, stack.causal)
    return counterpart(found, position)


def added(position: Position, dim: int, length: int) -> Encoded | None:
    """A table, also for no encoding at all: CTranslate2 would otherwise add one of its own."""
    table = probes.added_table(position, dim, length)
    return None if table is None else Encoded(table=table.numpy())


def rotated(position: Position) -> Encoded | None:
    """A rotation with any frequencies, written as a scaling of those of :data:`BASE`."""
    from ctranslate2.specs.attention_spec import RotaryScalingType

    found = probes.frequencies(position)
    if found is None:
        return None
    steps, rotation = found
    pairs = len(steps)
    plain = BASE ** -(torch.arange(pairs, dtype=torch.float64) / pairs)
    factors = (plain / steps).float().numpy()
    options = {
        "rotary_dim": 2 * pairs,
        "rotary_interleave": not rotation.halves,
        "rotary_base": BASE,
        "rotary_scaling_type": RotaryScalingType.Su,
    }
    scaling = ("rotary_scaling_long_factor", "rotary_scaling_short_factor")
    return Encoded(options, attention=dict.fromkeys(scaling, factors))


def biased(position: Position, causal: bool) -> Encoded | None:
    """A table of biases in T5's buckets of distances; each near distance has one for itself."""
    steps = np.geomspace(NEAR, FURTHEST, NEAR + 1)[:-1]
    distances = torch.from_numpy(np.concatenate([np.arange(NEAR), np.ceil(steps)])).long()
    tables = [probes.biases(position, -distances)]
    if not causal:
        tables.append(probes.biases(position, distances))
    if any(table is None for table in tables):
        return None
    table = torch.cat(tables).float().numpy()  # type: ignore[arg-type]  # none is None
    return Encoded(
        {"relative_attention_bias": True},
        attention={
            "relative_attention_bias": table,
            "relative_attention_max_distance": np.int32(FURTHEST),
        },
    )
