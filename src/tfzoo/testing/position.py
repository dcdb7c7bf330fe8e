"""Contracts of every position."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from tfzoo.base.registry import Entry
from tfzoo.contracts import Position
from tfzoo.errors import TfzooError
from tfzoo.testing.contract import EXACT, Violation, assert_finite, contract, difference, trait
from tfzoo.testing.gradients import assert_gradients, gradients_of
from tfzoo.testing.samples import SIZES, build_randomized
from tfzoo.testing.subject import hooks

B, N, D, H, C, MOST = 3, 6, SIZES["dim"], SIZES["heads"], SIZES["head_dim"], SIZES["max_length"]
LENGTH = torch.tensor([[40], [31], [7]])


def both(entry: Entry) -> Iterator[Position]:
    """One for an encoder, and one for a decoder where it can stand there."""
    yield build_randomized(entry, causal=False)
    if "needs_length" not in entry.traits:
        yield build_randomized(entry, causal=True)


def acts(
    position: Position, x: Tensor, pos: Tensor, length: Tensor | None = LENGTH
) -> dict[str, Tensor]:
    """What each hook that the position overrides does to a text at these places, row by row: ``(b n
    *)``.
    """
    found: dict[str, Tensor] = {}
    b, n = x.shape[:2]
    turn, bias = position.angles(pos), position.bias(pos, pos)
    for hook in hooks(position.entry.name):
        if hook == "embed":
            found[hook] = position.embed(x, pos, length)
        elif turn is not None and hook == "angles":
            found[hook] = turn(x[..., None, :C].transpose(1, 2).expand(b, H, n, C)).transpose(1, 2)
        elif bias is not None and hook == "bias":
            found[hook] = bias.expand(b, H, n, n).transpose(1, 2)
    return found


@trait("position", "needs_length")
def reads_the_length(entry: Entry) -> bool:
    """``embed`` reads the length of the text, and refuses a call without one."""
    position, x, pos = build_randomized(entry), torch.randn(B, N, D), torch.arange(N)[None]
    longer = position.embed(x, pos, LENGTH + 9)
    if torch.equal(position.embed(x, pos, LENGTH), longer):
        return False
    try:
        position.embed(x, pos)
    except TfzooError:
        return True
    raise Violation("it reads the length of a text, but takes none without a word")


@trait("position", "bounded")
def refuses_what_is_beyond(entry: Entry) -> bool:
    """A position at or over ``max_length`` is refused; every one under it works."""
    refused = []
    for position in both(entry):
        for places in ([0, MOST - 1], [0, MOST], [10 * MOST, 100 * MOST]):
            try:
                done = acts(position, torch.randn(1, 2, D), torch.tensor([places]), LENGTH[:1])
            except (IndexError, TfzooError):
                if max(places) < MOST:
                    raise
                refused.append(True)
                continue
            for hook, one in done.items():
                assert_finite(one, f"{hook} at place {max(places)}, of {MOST}")
            refused += [False] * (max(places) >= MOST)
    if len(set(refused)) > 1:
        raise Violation("some positions over max_length are refused, and some are not")
    return refused[0]


@trait("position", "bias_of_distance")
def bias_is_of_the_distance_alone(entry: Entry) -> bool:
    """The bias depends on nothing but the distance of two positions."""
    pos = torch.arange(N)[None]
    pairs = [(one.bias(pos, pos), one.bias(pos + 7, pos + 7)) for one in both(entry)]
    return all(
        near is not None and far is not None and difference(near, far) <= EXACT
        for near, far in pairs
    )


@contract("position")
def gradients_reach_every_parameter(entry: Entry) -> None:
    """Gradients reach every parameter."""
    for position in both(entry):
        x, pos = torch.randn(B, N, D, requires_grad=True), torch.arange(N)[None]
        out = torch.cat([one.flatten() for one in acts(position, x, pos).values()] or [x])
        assert_gradients(gradients_of(out, position, x))
