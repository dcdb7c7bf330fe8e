"""How large the scores of an attention are, and how far they saturate the softmax, by the width of
a head.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from tfzoo.base.registry import Spec, create, registry
from tfzoo.base.values import check_range
from tfzoo.masks import Mask
from tfzoo.plots.style import SOFT, line_style, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTHS = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
HEADS, QUERIES = 2, 128
KEYS = (2, 4096)
"""The smallest and the largest number of keys."""


@dataclass(frozen=True)
class Saturation:
    """What the softmax gets and gives at each width of a head, means over queries and heads.

    Args:
        spread: standard deviation of the scores of a query.
        largest: the largest weight of a query.
        entropy: entropy of its weights, in nats.
    """

    spread: list[float]
    largest: list[float]
    entropy: list[float]


def saturation_figure(specs: Sequence[Spec] = (), *, keys: int = 128) -> Figure:
    """Draw, for random queries and keys whose channels have variance 1, the spread of the scores,
    the largest weight of the softmax and the entropy of the weights against the width of a head.

    Attentions are drawn as they are initialised, from a fixed seed. Those with the same values
    share a line.

    Args:
        specs: names or ``{name: ..., option: ...}``; all attentions if there are none.
        keys: number of keys.

    Raises:
        UnknownName: no such attention.
        BadOption: an option that it does not have, or a value that it cannot take.
    """
    check_range("keys", keys, ge=KEYS[0], le=KEYS[1], whole=True)
    found: dict[str, Saturation] = {}
    for spec in specs or registry("attention").names():
        entry, options = registry("attention").options(spec)
        name = ", ".join([entry.name, *(f"{key} {value}" for key, value in options.items())])
        found[name] = measure_saturation(spec, keys)
    lines: list[tuple[list[str], Saturation]] = []
    for name, values in found.items():
        same = next((names for names, other in lines if other == values), None)
        lines.append(([name], values)) if same is None else same.append(name)
    with styled():
        figure = new_figure(9.0, 3.4 + 0.2 * (len(lines) // 3))
        spread, largest, entropy = figure.subplots(1, 3)
        for index, (_, values) in enumerate(lines):
            style = {**line_style(index), "marker": "o", "markersize": 3.5}
            spread.plot(WIDTHS, [one or math.nan for one in values.spread], **style)
            largest.plot(WIDTHS, values.largest, **style)
            entropy.plot(WIDTHS, values.entropy, **style)
        spread.set_yscale("log")
        spread.yaxis.set_major_formatter("{x:g}")
        spread.set_title("spread of the scores (standard deviation)")
        largest.set(title="largest weight", ylim=(-0.09, 1.03))
        entropy.set(title="entropy of the weights (nats)", ylim=(-0.15, math.log(keys) + 0.35))
        mark_uniform(largest, 1 / keys, above=False)
        mark_uniform(entropy, math.log(keys), above=True)
        for axes in (spread, largest, entropy):
            axes.set_xscale("log", base=2)
            axes.set_xticks(WIDTHS[::2], [f"{width:,}" for width in WIDTHS[::2]])
            axes.set_xlabel("head_dim")
        labels = [
            ", ".join(names) + ("" if any(values.spread) else " (spread 0)")
            for names, values in lines
        ]
        figure.legend(spread.lines, labels, loc="outside lower left", ncols=3)
        figure.suptitle(
            f"softmax over {keys} keys, queries and keys of variance 1",
            x=0.01,
            ha="left",
            weight="bold",
        )
    return figure


def mark_uniform(axes: Axes, level: float, above: bool) -> None:
    """Mark what equal weights give."""
    axes.axhline(level, color=SOFT, linewidth=0.8, linestyle=(0, (2, 2)), zorder=1)
    axes.annotate(
        "equal weights",
        (WIDTHS[-1], level),
        xytext=(0, 3 if above else -4),
        textcoords="offset points",
        ha="right",
        va="bottom" if above else "top",
        size=8,
        color=SOFT,
    )


def measure_saturation(spec: Spec, keys: int = 128) -> Saturation:
    """Measure one attention at all widths: scores of ``(b h q k)`` and their softmax.

    >>> found = measure_saturation("dot_product", keys=32)
    >>> [round(value) for value in found.spread]  # the root of the width
    [2, 3, 4, 6, 8, 11, 16, 23, 32]
    """
    measured: list[list[float]] = []
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        for width in WIDTHS:
            torch.manual_seed(0)
            q, k = torch.randn(1, HEADS, QUERIES, width), torch.randn(1, HEADS, keys, width)
            supplied = {"heads": HEADS, "head_dim": width, "layer": 0, "layers": 1}
            attention = create("attention", spec, **supplied)
            scores = attention.scores(q, k).float()
            weights = Mask().softmax(scores)
            entropy = torch.special.entr(weights).sum(-1)
            means = (scores.std(-1).mean(), weights.amax(-1).mean(), entropy.mean())
            measured.append([float(mean) for mean in means])
    spread, largest, entropies = (list(one) for one in zip(*measured, strict=True))
    return Saturation(spread, largest, entropies)
