"""``attention.html``: the attention maps of one text, as lines and as heat maps."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tfzoo.errors import BadRun
from tfzoo.pages.render import render
from tfzoo.tasks.attention import AttentionMap

TEMPLATE = Path(__file__).parent / "attention.html"
LEVELS = 255


def attention_page(
    text: str,
    maps: Sequence[AttentionMap],
    *,
    run: str,
    facts: Mapping[str, str],
    notes: Sequence[str] = (),
) -> str:
    """The page. Weights are stored in one byte each, and differ from ``maps`` by less than 1/255 of
    their row's largest; see :func:`packed`.

    Args:
        run: what the page calls the model.
        facts: lines below the text, such as its translation.
        notes: sentences, such as which layers have no map.

    Raises:
        BadRun: a weight is not finite.
    """
    sides = {one.side: {"queries": one.queries, "keys": one.keys} for one in maps}
    data = {"sides": sides, "maps": [packed(one) for one in maps]}
    return render(TEMPLATE, text=text, run=run, facts=facts, notes=notes, data=data)


def packed(one: AttentionMap) -> dict[str, Any]:
    """A map as JSON: ``weight[h, q, k] = (byte[h, q, k] - zero) * step[h, q]``, both in base64.

    A weight is rounded up or down, those with the largest remainders up, so that the sum of a row
    differs by half a step at most. A weight of 0 stays 0. ``zero`` is 128 if any weight is
    negative.
    """
    weights = one.weights.double().numpy()
    if not np.isfinite(weights).all():
        raise BadRun(f"the attention of {one.side} layer {one.layer} is not finite")
    zero = 128 if (weights < 0).any() else 0
    step = np.abs(weights).max(-1, keepdims=True) / (LEVELS - zero)
    exact = weights / np.where(step > 0, step, 1)
    lower = np.floor(exact)
    remainder = exact - lower
    rounded_up = np.rint(exact.sum(-1, keepdims=True)) - lower.sum(-1, keepdims=True)
    rank = (-remainder).argsort(-1, kind="stable").argsort(-1, kind="stable")
    values = lower + (rank < rounded_up) + zero
    return {
        "side": one.side,
        "layer": one.layer,
        "heads": len(weights),
        "zero": zero,
        "steps": base64.b64encode(step.astype("<f4").tobytes()).decode(),
        "weights": base64.b64encode(values.astype(np.uint8).tobytes()).decode(),
    }
