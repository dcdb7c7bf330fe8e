"""Pictures of parts, drawn when the site is built."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from tfzoo.base.registry import Entry, create
from tfzoo.masks import Mask
from tfzoo.models.encoder_decoder import Decoder, Encoder
from tfzoo.models.rules import acts_on_scores, embeds
from tfzoo.plots import position_figure
from tfzoo.plots.style import COLOURS, SOFT, heat_map, new_figure, save, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TOKENS = 24


def of_part(entry: Entry) -> str:
    """The picture of a part, in Markdown; empty if it has none."""
    return f"![{CAPTIONS[entry.kind]}]({entry.name}.svg)" if has_picture(entry) else ""


def has_picture(entry: Entry) -> bool:
    """Whether there is something to draw."""
    if entry.kind == "position":
        return embeds(entry) or acts_on_scores(entry)
    return entry.kind in DRAW and "identity" not in entry.traits


def write(entry: Entry, path: Path) -> None:
    """Draw the picture of a part, unless it is there and newer than the part."""
    source = Path(inspect.getfile(entry.cls))
    if not path.exists() or path.stat().st_mtime < source.stat().st_mtime:
        save(DRAW[entry.kind](entry), path)


def draw_position(entry: Entry) -> Figure:
    """As ``tfzoo plot position`` draws it."""
    return position_figure(entry.name)


def draw_weighting(entry: Entry) -> Figure:
    """The weights of nine keys, and those of a softmax."""
    scores = torch.linspace(-2.0, 2.0, 9)
    part = create("weighting", entry.name, heads=1)
    with torch.no_grad():
        weights = part(scores[None, None, None], Mask())[0, 0, 0]
    with styled():
        figure = new_figure(6.0, 2.6)
        axes = figure.subplots()
        axes.bar(scores, weights, width=0.35, color=COLOURS[0], label=entry.name)
        if "softmax" not in entry.traits:
            style: dict[str, Any] = {
                "color": SOFT,
                "marker": "o",
                "markersize": 3.5,
                "linewidth": 1.0,
            }
            axes.plot(scores, scores.softmax(-1), **style, label="softmax")
            axes.legend()
        axes.set(xlabel="score of a key", ylabel="weight")
    return figure


def draw_schedule(entry: Entry) -> Figure:
    """The factor at each of 1,000 updates."""
    updates = range(1, 1001)
    part = create("schedule", {"name": entry.name, "warmup": 100}, max_steps=1000)
    with styled():
        figure = new_figure(6.0, 2.6)
        axes = figure.subplots()
        axes.plot(updates, [part.factor(update) for update in updates], color=COLOURS[0])
        axes.set(xlabel="update", ylabel="share of the peak", ylim=(0, 1.05))
        axes.set_title("max_steps 1000, warmup 100")
    return figure


def draw_mixer(entry: Entry) -> Figure:
    """How much each token has to do with each output, as the gradient says."""
    sides = {"encoder": False, "decoder": True}
    if "bidirectional" in entry.traits:
        del sides["decoder"]
    with styled():
        figure = new_figure(3.2 * len(sides), 3.0)
        for axes, (side, causal) in zip(
            figure.subplots(1, len(sides), squeeze=False)[0], sides.items(), strict=True
        ):
            heat_map(axes, influence(entry, causal), aspect="equal")
            axes.set(title=side, xlabel="token", ylabel="output")
    return figure


def influence(entry: Entry, causal: bool) -> NDArray[np.floating[Any]]:
    """The size of the derivative of each output by each token, ``(n n)``: the largest is 1."""
    bare: dict[str, Any] = {"feedforward": "none", "norm": "none", "residual": "none"}
    bare |= {"mixer": entry.name, "position": "none"}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        stack: Encoder | Decoder = (
            Decoder(32, 4, 1, cross_attention=False, **bare)
            if causal
            else Encoder(32, 4, 1, **bare)
        )
        x = torch.randn(1, TOKENS, 32, requires_grad=True)
        y = stack.eval()(x)[0]
    rows = [[torch.autograd.grad(one, x, retain_graph=True)[0][0] for one in row] for row in y]
    sizes = torch.stack([torch.stack(row) for row in rows]).square().sum((1, 3)).sqrt()
    return np.asarray(sizes / sizes.max())


DRAW: Mapping[str, Callable[[Entry], Figure]] = {
    "position": draw_position,
    "weighting": draw_weighting,
    "schedule": draw_schedule,
    "mixer": draw_mixer,
}
CAPTIONS: Mapping[str, str] = {
    "position": "What it adds or does, by position and by distance",
    "weighting": "Weights of nine keys by their scores",
    "schedule": "The factor at each update",
    "mixer": "How strongly each output depends on each token, in a new layer",
}
