"""Contracts of every learning-rate schedule."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from tfzoo.base.registry import Entry
from tfzoo.testing.contract import Violation, contract
from tfzoo.testing.samples import build

UPDATES = (*range(1, 102), 1000, 4000, 10_000, 100_000)


def factors(entry: Entry, options: Mapping[str, Any] | None) -> list[Tensor]:
    """The factor at each of many updates, near and far."""
    schedule = build(entry, options)
    return [torch.tensor([schedule.factor(update) for update in UPDATES])]


@contract("schedule")
def a_factor_of_the_peak_at_every_update(entry: Entry) -> None:
    """``factor(update)`` is between 0 and 1 for every update from 1 on, over 0 at the first and
    over 0.9 at some.
    """
    factors = [build(entry).factor(update) for update in UPDATES]
    for update, factor in zip(UPDATES, factors, strict=True):
        if not (math.isfinite(factor) and 0 <= factor <= 1):
            raise Violation(f"factor({update}) = {factor}, which is not between 0 and 1")
    if not factors[0] > 0:
        raise Violation("the first update, number 1, changes nothing")
    if not max(factors) > 0.9:
        raise Violation(f"far from the peak all the time: at most {max(factors)}")


@contract("schedule")
def the_same_update_has_the_same_factor(entry: Entry) -> None:
    """``factor`` depends on the update alone, so that training can resume."""
    used, again = build(entry), build(entry)
    forwards = [used.factor(update) for update in UPDATES]
    if forwards[::-1] != [again.factor(update) for update in reversed(UPDATES)]:
        raise Violation("a factor depends on what was asked before")
