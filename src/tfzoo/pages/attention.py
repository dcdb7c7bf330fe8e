"""``attention.html``: the attention maps of one text, as lines and as heat maps."""

from __future__ import annotations

import base64
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfzoo.errors import BadRun
from tfzoo.pages.attention_maps import AttentionMap, AttentionMaps, TooLarge
from tfzoo.pages.render import render

TEMPLATE = Path(__file__).parent / "attention.html"
LEVELS = 255
MAX_BYTES = 1_000_000
"""Larger pages are slow in a browser."""


def attention_page(*runs: AttentionMaps) -> str:
    """The page of one text, with the maps of several models side by side if several are given.
    Weights are stored in one byte each, and differ from the maps' by less than 1/255 of their
    row's largest; see :func:`packed`.

    Raises:
        BadRun: a weight is not finite.
        TooLarge: the page would have more than 1 MB.
    """
    data = [
        {
            "sides": {one.side: {"queries": one.queries, "keys": one.keys} for one in maps},
            "maps": [packed(one) for one in maps],
        }
        for maps in runs
    ]
    sides = {one.side for maps in runs for one in maps}
    page = render(
        TEMPLATE,
        text=runs[0].text,
        runs=runs,
        sides=sides,
        data=data,
        strongest=[strongest(maps) for maps in runs],
    )
    if (size := len(page.encode())) > MAX_BYTES:
        words = f"the page would have {size / 1e6:.1f} MB, more than {MAX_BYTES / 1e6:g} MB"
        raise TooLarge(words, runs, MAX_BYTES / size)
    return page


def strongest(maps: AttentionMaps) -> list[dict[str, Any]]:
    """What each token attends to most in the mean of the heads of each layer, side by side: for a
    browser that runs no script.
    """
    found = []
    for side in dict.fromkeys(one.side for one in maps):
        layers = [one for one in maps if one.side == side]
        columns = []
        for one in layers:
            weights, keys = one.weights.mean(0).max(-1)
            columns += [
                [
                    (one.keys[key], f"{weight:.2f}")
                    for weight, key in zip(weights, keys, strict=True)
                ]
            ]
        rows = zip(layers[0].queries, zip(*columns, strict=True), strict=True)
        found.append(
            {"name": side.capitalize(), "layers": [one.layer for one in layers], "rows": [*rows]}
        )
    return found


def packed(one: AttentionMap) -> dict[str, Any]:
    """A map as JSON: ``weight[h, q, k] = (byte[h, q, k] - zero) * step[h, q]``, both compressed and
    in base64.

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
        "steps": compressed(step.astype("<f4")),
        "weights": compressed(values.astype(np.uint8)),
    }


def compressed(values: NDArray[Any]) -> str:
    """The bytes of an array in zlib's format, which browsers read, as base64."""
    return base64.b64encode(zlib.compress(values.tobytes(), 9)).decode()
