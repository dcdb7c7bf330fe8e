"""Contracts of every position."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from tfzoo.base.registry import Entry
from tfzoo.contracts import Position
from tfzoo.errors import TfzooError
from tfzoo.testing.contract import EXACT, Violation, contract, difference, trait
from tfzoo.testing.gradients import assert_gradients, gradients_of
from tfzoo.testing.probes import probe
from tfzoo.testing.samples import SIZES, B, D, N, build_randomized

MOST = SIZES["max_length"]
LENGTH = torch.tensor([[40], [31], [7]])


def both(entry: Entry) -> Iterator[Position]:
    """One for an encoder, and one for a decoder where it can stand there."""
    yield build_randomized(entry, causal=False)
    if "needs_length" not in entry.traits:
        yield build_randomized(entry, causal=True)


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


def stands(position: Position, place: int) -> bool:
    """Whether a token can be at this place."""
    pos = torch.tensor([[place]])
    try:
        position.embed(torch.randn(1, 1, D), pos, LENGTH[:1])
        position.angles(pos)
        position.bias(pos, pos)
    except (IndexError, TfzooError):
        return False
    return True


@trait("position", "bounded")
def refuses_what_is_beyond(entry: Entry) -> bool:
    """A position at or over ``max_length`` is refused; one under it never is."""
    near = {stands(one, MOST - 1) for one in both(entry)}
    far = {stands(one, place) for one in both(entry) for place in (MOST, 100 * MOST)}
    if near != {True} or len(far) != 1:
        raise Violation("a place under max_length is refused, or some beyond it and others not")
    return far == {False}


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
        out = torch.cat([one.flatten() for one in probe("position", position)])
        assert_gradients(gradients_of(out, position))
