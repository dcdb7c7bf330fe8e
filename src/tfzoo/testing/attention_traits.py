"""Contracts about the traits of an attention."""

from __future__ import annotations

from dataclasses import replace

import torch

from tfzoo.base.registry import Entry
from tfzoo.base.rotation import Rotation
from tfzoo.testing.attention_calls import MIDDLE, C, draw
from tfzoo.testing.contract import Violation, assert_differs, assert_same, contract
from tfzoo.testing.samples import build_randomized


@contract("attention")
def rotatable_says_the_truth(entry: Entry) -> None:
    """Rotating queries and keys by one angle changes no output exactly where the trait
    ``rotatable`` is declared.
    """
    attention, claimed = build_randomized(entry), "rotatable" in entry.traits
    for halves in (False, True):
        call = draw()
        angles = torch.rand(1, 1, 1, C // 2) * 6.28
        turn = Rotation(angles.cos(), angles.sin(), halves)
        turned = replace(call, q=turn(call.q), k=turn(call.k))
        if claimed:
            assert_same(
                turned(attention),
                call(attention),
                "claims to be rotatable, but a common turn changes the output",
            )
        else:
            assert_differs(
                turned(attention),
                call(attention),
                "is rotatable, but does not claim it",
            )


@contract("attention")
def nonpositive_says_the_truth(entry: Entry) -> None:
    """No score exceeds 0 exactly where the trait ``nonpositive`` is declared."""
    attention, call = build_randomized(entry), draw(q=MIDDLE, k=MIDDLE)
    found = bool((attention.scores(call.q, call.k) <= 0).all())
    if found != ("nonpositive" in entry.traits):
        raise Violation(
            "no score exceeds 0, but that is not claimed"
            if found
            else "claims that no score exceeds 0, but some do"
        )


@contract("attention")
def mixes_heads_says_the_truth(entry: Entry) -> None:
    """An output depends on the values of other heads exactly where the trait ``mixes_heads`` is
    declared.
    """
    attention, call = build_randomized(entry), draw()
    v = call.v.clone()
    v[:, :1] += torch.randn_like(v[:, :1])
    others, before = replace(call, v=v)(attention)[:, 1:], call(attention)[:, 1:]
    if "mixes_heads" in entry.traits:
        assert_differs(others, before, "claims to mix heads, but an output depends on its own")
    else:
        assert_same(others, before, "mixes heads, but does not claim it")
