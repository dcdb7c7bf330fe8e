"""Contracts of every learning-rate schedule."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from tfzoo.base.registry import Entry
from tfzoo.testing.contract import Violation, contract
from tfzoo.testing.samples import SIZES, build

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
    used = build(entry)
    for update in UPDATES:
        used.factor(update)
    for update in UPDATES:
        if used.factor(update) != build(entry).factor(update):
            raise Violation(f"factor({update}) depends on what was asked before")


@contract("schedule")
def a_schedule_that_takes_max_steps_depends_on_it(entry: Entry) -> None:
    """A schedule that takes ``max_steps`` depends on it."""
    if "max_steps" in entry.supplied:
        near, far = build(entry), build(entry, max_steps=2 * SIZES["max_steps"])
        if all(
            near.factor(update) == far.factor(update) for update in range(1, SIZES["max_steps"])
        ):
            raise Violation("max_steps is taken and not used")
