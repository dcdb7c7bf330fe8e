"""Contracts of every attention."""

from __future__ import annotations

from dataclasses import replace

import torch

from tfzoo.base.registry import Entry
from tfzoo.base.rotation import Rotation
from tfzoo.testing.attention_calls import MIDDLE, C, calls, draw
from tfzoo.testing.contract import EXACT, assert_same, contract, difference, trait
from tfzoo.testing.gradients import assert_same_gradients
from tfzoo.testing.samples import build_randomized


@contract("attention")
def the_output_is_the_softmax_of_its_own_scores(entry: Entry) -> None:
    """``forward`` equals ``combine(softmax(scores / temperature + bias), v)`` over the visible
    keys, zeros where there is none, for short, middle and long texts; so do its gradients.
    ``combine`` is ``weights v`` unless overridden.
    """
    attention = build_randomized(entry)
    for name, call in calls():
        inputs = call.inputs(attention)
        out, expected = call(attention), call.reference(attention)
        assert_same(out, expected, name)
        assert_same_gradients(out, expected, inputs, name)


@contract("attention")
def the_map_is_what_the_output_is_made_with(entry: Entry) -> None:
    """``weights`` combined with ``v`` are the output."""
    attention = build_randomized(entry)
    for name, call in calls():
        named = {"mask": call.mask, "bias": call.bias, "temperature": call.temperature}
        weights = attention.weights(call.q, call.k, **named)
        assert_same(attention.combine(weights, call.v), call(attention), f"combined, {name}")


@contract("attention")
def hidden_keys_have_no_influence(entry: Entry) -> None:
    """A masked key has exactly no influence, however large its score."""
    attention = build_randomized(entry)
    for name, call in calls():
        hidden = ~call.visible()
        bias = torch.zeros(hidden.shape) if call.bias is None else call.bias
        lifted = replace(call, bias=bias.masked_fill(hidden, 1e5))
        assert_same(lifted(attention), call(attention), f"hidden scores of 100,000, {name}")


@trait("attention", "rotatable")
def turns_alike(entry: Entry) -> bool:
    """Rotating queries and keys by one angle changes no output."""
    attention, call = build_randomized(entry), draw()
    angles = torch.rand(1, 1, 1, C // 2) * 6.28
    turns = [Rotation(angles.cos(), angles.sin(), halves) for halves in (False, True)]
    turned = [replace(call, q=turn(call.q), k=turn(call.k))(attention) for turn in turns]
    return all(difference(one, call(attention)) <= EXACT for one in turned)


@trait("attention", "nonpositive")
def no_score_exceeds_0(entry: Entry) -> bool:
    """No score exceeds 0."""
    call = draw(q=MIDDLE, k=MIDDLE)
    return bool((build_randomized(entry).scores(call.q, call.k) <= 0).all())


@trait("attention", "mixes_heads")
def reads_other_heads(entry: Entry) -> bool:
    """An output depends on the values of other heads."""
    attention, call = build_randomized(entry), draw()
    v = torch.cat([torch.randn_like(call.v[:, :1]), call.v[:, 1:]], 1)
    return difference(replace(call, v=v)(attention)[:, 1:], call(attention)[:, 1:]) > EXACT
