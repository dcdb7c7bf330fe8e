"""A positional encoding as a heat map, and against distance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tfzoo.base.registry import Spec, create, registry
from tfzoo.base.values import check_range
from tfzoo.contracts import Position
from tfzoo.errors import BadOption
from tfzoo.plots.style import (
    COLOURS,
    GRID,
    escape_dollars,
    heat_map,
    line_style,
    new_figure,
    styled,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

Array = NDArray[Any]
LIMITS = {"dim": (1, 4096), "heads": (1, 64), "length": (2, 2048)}
"""The smallest and the largest sizes that are drawn: a bias has ``heads * length^2`` numbers."""
MOST_LINES = 8
"""The most heads of a bias that have a line."""
WIDTH, HEIGHT = 9.0, 3.3
"""Of the pictures of one hook, in inches."""


def position_figure(
    spec: Spec, *, dim: int = 64, heads: int = 8, length: int = 128, causal: bool = False
) -> Figure:
    """Draw a positional encoding, one row for each hook that it overrides:

    - ``embed``: the vectors of all positions, and their cosine similarity by distance;
    - ``angles``: the cosine of each pair's angle by position, and the score of two equal vectors by
      distance, the mean over all directions;
    - ``bias``: that of the first head for all queries and keys, of each head by distance.

    Where values of one distance differ, a band shows the smallest and the largest. What is trained
    is drawn as it is initialised, from a fixed seed.

    Args:
        spec: name or ``{name: ..., option: ...}``.
        dim: width of the model and of one head.
        heads: number of heads.
        length: number of positions.
        causal: for a decoder, in which no query looks at a later key.

    Raises:
        UnknownName: no such position.
        BadOption: an option that it does not have, or a value that it cannot take; or it overrides
            no hook, so that there is nothing to draw.

    >>> figure = position_figure({"name": "rotary", "base": 500_000}, dim=32)
    >>> [axes.get_title(loc="left") for axes in figure.axes if axes.lines or axes.images]
    ['angles: cosine by position', 'score of two equal vectors']
    """
    for name, value in (("dim", dim), ("heads", heads), ("length", length)):
        check_range(name, value, ge=LIMITS[name][0], le=LIMITS[name][1], whole=True)
    entry, options = registry("position").options(spec)
    hooks = [hook for hook in DRAW if getattr(entry.cls, hook) is not getattr(Position, hook)]
    if not hooks:
        raise BadOption(f"position {entry.name!r} does nothing at any position: nothing to draw")
    sizes = {"dim": dim, "heads": heads, "head_dim": dim, "max_length": length, "causal": causal}
    with torch.random.fork_rng(devices=[]), torch.no_grad(), styled():
        torch.manual_seed(0)
        position = create("position", spec, **sizes)
        figure = new_figure(WIDTH, HEIGHT * len(hooks))
        rows = figure.subfigures(len(hooks), 1, squeeze=False)[:, 0]
        for hook, row in zip(hooks, rows, strict=True):
            DRAW[hook](row, position, sizes)
    trained = any(parameter.requires_grad for parameter in position.parameters())
    given = [f"{key} {value}" for key, value in options.items()]
    facts = ", ".join([*given, *(["as initialised"] if trained else [])])
    title = f"position {entry.name}" + (f": {facts}" if facts else "")
    with styled():
        figure.suptitle(escape_dollars(title), x=0.01, ha="left", weight="bold")
    return figure


def draw_embedding(row: SubFigure, position: Any, sizes: Mapping[str, int]) -> None:
    """What is added to each token, and how alike two positions are."""
    length = sizes["max_length"]
    x, pos = torch.zeros(1, length, sizes["dim"]), torch.arange(length)[None]
    vectors = array(position.embed(x, pos, torch.tensor([[length]]))[0])
    left, right = row.subplots(1, 2)
    image = heat_map(left, vectors.T, origin="lower")
    row.colorbar(image, ax=left, label="value")
    left.set(title="embed: what is added to a token", xlabel="position", ylabel="channel")
    norms = np.linalg.norm(vectors, axis=-1)
    units = vectors[norms > 0] / norms[norms > 0, None]  # a zero vector is similar to none
    draw_line(right, *by_distance(units @ units.T), COLOURS[0])
    right.set(title="similarity of two positions", ylabel="cosine", ylim=(-1.05, 1.05))
    right.set(xlabel="distance (tokens)", xlim=(0, length - 1))


def draw_rotation(row: SubFigure, position: Any, sizes: Mapping[str, int]) -> None:
    """How queries and keys are rotated, and what remains of a score."""
    length, width = sizes["max_length"], sizes["head_dim"]
    rotation = position.angles(torch.arange(length)[None])
    left, right = row.subplots(1, 2)
    image = heat_map(left, array(rotation.cos[0, 0]).T, origin="lower")
    row.colorbar(image, ax=left, label="cosine of the angle")
    left.set(title="angles: cosine by position", xlabel="position", ylabel="pair of channels")
    # Each pair (1, 1) gives twice the cosine of its angle: the mean over all directions.
    rotated = rotation(torch.ones(1, 1, length, width))[0, 0]
    scores = array(rotated @ rotated[0] / width)
    draw_line(right, np.arange(length), scores, scores, scores, COLOURS[0])
    right.set(title="score of two equal vectors", ylabel="score / squared length")
    right.set(xlabel="distance (tokens)", xlim=(0, length - 1))
    right.axhline(0, color=GRID, zorder=0)


def draw_bias(row: SubFigure, position: Any, sizes: Mapping[str, int]) -> None:
    """What is added to the scores of each head."""
    length = sizes["max_length"]
    pos = torch.arange(length)[None]
    bias = array(position.bias(pos, pos)[0])
    if sizes["causal"]:
        bias = np.where(np.tri(length, dtype=bool), bias, np.nan)
    left, right = row.subplots(1, 2)
    image = heat_map(left, bias[0], aspect="equal")
    row.colorbar(image, ax=left, label="added to the score")
    left.set(title="bias: of head 0", xlabel="key", ylabel="query")
    for head, values in enumerate(bias[:MOST_LINES]):
        style = line_style(head)["color"]
        draw_line(right, *by_distance(values, both=True), style, f"head {head}")
    right.set(title="bias of each head", xlabel="key position \N{MINUS SIGN} query position")
    right.set_xlim(1 - length, 0 if sizes["causal"] else length - 1)
    right.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))


DRAW = {"embed": draw_embedding, "angles": draw_rotation, "bias": draw_bias}


def draw_line(
    axes: Axes, x: Array, mean: Array, low: Array, high: Array, colour: Any, label: str = ""
) -> None:
    """A line, and a band around it where the values differ."""
    if float(np.max(high - low)) > 1e-3 * float(np.max(np.abs(mean)) or 1):
        axes.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.plot(x, mean, color=colour, label=label)


def by_distance(values: Array, both: bool = False) -> tuple[Array, Array, Array, Array]:
    """Mean, smallest and largest of the values ``(q k)`` of each distance ``k - q``, ``both``
    negative and positive; a distance that has NaN is left out.

    >>> [part.tolist() for part in by_distance(np.array([[1.0, 2.0], [3.0, 5.0]]))]
    [[0, 1], [3.0, 2.0], [1.0, 2.0], [5.0, 2.0]]
    """
    length = len(values)
    found = {one: np.diagonal(values, one) for one in range(1 - length if both else 0, length)}
    found = {one: diagonal for one, diagonal in found.items() if not np.isnan(diagonal).any()}
    each = [[take(diagonal) for diagonal in found.values()] for take in (np.mean, np.min, np.max)]
    mean, low, high = (np.array(one) for one in each)
    return np.array(list(found)), mean, low, high


def array(values: Tensor) -> Array:
    """As an array in float64."""
    return np.asarray(values.double().numpy())
