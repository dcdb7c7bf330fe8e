"""Contracts of every feed-forward layer."""

from __future__ import annotations

import torch

from tfzoo.base.registry import Entry
from tfzoo.testing.contract import Violation, trait
from tfzoo.testing.gradients import jumps
from tfzoo.testing.samples import B, D, N, build, build_randomized


@trait("feedforward", "waits_for_device")
def reads_numbers(entry: Entry) -> bool:
    """Without numbers to read (``torch.device("meta")``), it fails."""
    with torch.device("meta"):
        layer, x = build(entry), torch.randn(B, N, D)
    try:
        layer(x)
    except (NotImplementedError, RuntimeError):
        return True
    return False


@trait("feedforward", "identity")
def gives_its_input(entry: Entry) -> bool:
    """The output is the input."""
    layer, x = build_randomized(entry), torch.randn(B, N, D)
    return all(torch.equal(layer(x, dropout), x) for dropout in (0.0, 0.5))


@trait("feedforward", "auxiliary_loss")
def sets_a_loss(entry: Entry) -> bool:
    """Training sets a loss that has gradients; evaluation sets none."""
    layer, x = build_randomized(entry), torch.randn(B, N, D)
    layer.eval()(x)
    evaluated = layer.auxiliary_loss
    layer.train()(x)
    loss = layer.auxiliary_loss
    if evaluated is not None:
        raise Violation("a loss is set in evaluation mode")
    return loss is not None and loss.shape == () and loss.requires_grad


@trait("feedforward", "discontinuous")
def jumps_somewhere(entry: Entry) -> bool:
    """The output jumps where the input hardly changes."""
    return jumps(build_randomized(entry), torch.randn(1, 99, D), torch.randn(1, 99, D))
