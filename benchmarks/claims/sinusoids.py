"""Sinusoids: is a position a linear map of another, does their similarity fall with distance, and
what does a score make of it?

    python -m benchmarks.claims.sinusoids --write

The first table is exact, in float64. For the others, small translators are trained in ``--runs``,
half a minute each, if they are not there.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.claims.shared import (
    RUNS,
    SEEDS,
    Found,
    arguments,
    decoder_input,
    mean_and_range,
    publish,
    real_tokens,
    table,
    trained,
    unseen,
    untrained,
)
from tfzoo.base.registry import create
from tfzoo.data.batches import ParallelBatch
from tfzoo.models.multihead import split_heads
from tfzoo.plots.style import GRID, SOFT, line_style, new_figure, styled
from tfzoo.tasks.translation import TranslationTask

WIDTHS = (16, 32, 64, 128, 256, 512, 1024)
LENGTH = 16
"""Positions whose scores are compared: about as many as a sentence of training has tokens."""
PARTS = ("content", "position", "constant")


def sinusoids(dim: int, length: int, start: int = 0) -> Tensor:
    """``PE(start)`` to ``PE(start + length - 1)``: ``(n d)``, float64."""
    pos = torch.arange(start, start + length, dtype=torch.float64)[None]
    zeros = torch.zeros(1, length, dim, dtype=torch.float64)
    vectors: Tensor = create("position", "sinusoidal", dim=dim).embed(zeros, pos)
    return vectors[0]


def turn(dim: int, k: int) -> Tensor:
    """``M_k``, which turns each pair of channels by the angle ``k / 10000^(2i/d)``: ``(d d)``."""
    angle = k / 10_000 ** (torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    cos, sin = angle.cos(), angle.sin()
    pairs = torch.stack([cos, sin, -sin, cos], -1).unflatten(-1, (2, 2))
    return torch.block_diag(*pairs)


def similarity(dim: int, length: int) -> Tensor:
    """Cosine of ``PE(0)`` and ``PE(n)``, as of any two positions at the distance ``n``: ``(n)``."""
    return sinusoids(dim, length) @ sinusoids(dim, 1)[0] / (dim / 2)


def exact_rows() -> list[list[str]]:
    """By width: how wrong the linear map is, and where similarity falls."""
    rows = []
    for dim in WIDTHS:
        here = sinusoids(dim, 1000)
        error = max(
            float((here @ turn(dim, k).mT - sinusoids(dim, 1000, k)).abs().max())
            for k in (1, 10, 100)
        )
        shape = similarity(dim, 1000)
        first = int((shape[1:] > shape[:-1]).nonzero()[0])
        rises = float((shape[1:101] > shape[:100]).double().mean())
        cells = [f"{error:.0e}", f"{first}", f"{shape[first]:.3f}", f"{100 * rises:.0f} %"]
        rows.append([f"{dim}", *cells])
    return rows


def scored(task: TranslationTask, side: str) -> tuple[Any, Any, Any]:
    """The stack of a side, and the norm and the attention of its first layer."""
    stack = getattr(task.model, side)
    return stack, stack.layers[0].self_attention.norm, stack.layers[0].self_attention.inner


@torch.no_grad()
def score_parts(
    task: TranslationTask, batch: ParallelBatch, side: str
) -> tuple[dict[tuple[str, str], Tensor], Tensor]:
    """The scores of the first layer as a sum of terms ``(b h q k)``, by the part of the query and
    the part of the key that they multiply; and the keys that each query sees, ``(b 1 q k)``.

    What the attention reads is ``weight (x - mean(x)) / deviation(x) + bias``, with ``x`` the sum
    of content and position. The deviation divides both. The constant part is what all tokens have
    alike: the biases of norm and projection, and the mean of the first ``LENGTH`` sinusoids, whose
    slow channels hardly differ between them.
    """
    stack, norm, block = scored(task, side)
    ids = batch.source if side == "encoder" else decoder_input(batch)
    embedding = task.model.source_embedding if side == "encoder" else task.model.target_embedding
    content = embedding(ids)
    position = stack.position.embed(torch.zeros_like(content), torch.arange(ids.shape[1])[None])
    same = sinusoids(content.shape[-1], LENGTH).mean(0).to(content.dtype)
    x, position = content + position, position - same
    deviation = (x.var(-1, unbiased=False, keepdim=True) + norm.eps).sqrt()
    parts = {"content": content, "position": position, "constant": same}
    read = {
        part: norm.weight * (y - y.mean(-1, keepdim=True)) / deviation for part, y in parts.items()
    }
    read["constant"] = read["constant"] + norm.bias

    def heads(linear: Any) -> dict[str, Tensor]:
        return {
            part: split_heads(
                linear(y) if part == "constant" else y @ linear.weight.mT, block.heads
            )
            for part, y in read.items()
        }

    queries, keys = heads(block.query), heads(block.key)
    terms = {
        (one, other): block.attention.scores(queries[one], keys[other])
        for one in PARTS
        for other in PARTS
    }
    real = real_tokens(batch, side)
    visible = real[:, None, None, :] & real[:, None, :, None]
    if side == "decoder":
        visible = visible & torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).tril()
    return terms, visible


def shares(terms: dict[tuple[str, str], Tensor], visible: Tensor) -> dict[tuple[str, str], float]:
    """The share of each term in the variance of a query's scores over the keys that it sees:
    covariance of the term and the score, divided by the variance of the score. They sum to 1.
    """
    count = visible.sum(-1, keepdim=True).clamp(min=1)

    def centred(scores: Tensor) -> Tensor:
        scores = scores.masked_fill(~visible, 0.0)
        return (scores - scores.sum(-1, keepdim=True) / count).masked_fill(~visible, 0.0)

    alone = {pair: centred(scores) for pair, scores in terms.items()}
    total = torch.stack([*alone.values()]).sum(0)
    return {pair: float((one * total).sum() / total.square().sum()) for pair, one in alone.items()}


@torch.no_grad()
def position_scores(task: TranslationTask) -> Tensor:
    """What positions alone add to the scores of the encoder's first layer, up to a factor: ``(h q
    k)``.
    """
    _, norm, block = scored(task, "encoder")
    vectors = sinusoids(norm.weight.numel(), LENGTH).to(norm.weight.dtype)
    read = norm.weight * (vectors - vectors.mean(-1, keepdim=True))
    q, k = (
        split_heads((read @ one.weight.mT)[None], block.heads) for one in (block.query, block.key)
    )
    scores: Tensor = block.attention.scores(q, k)[0]
    return scores


@torch.no_grad()
def shape_of(scores: Tensor) -> tuple[float, float, float, float]:
    """Of the scores of positions ``(q k)``, in %: the share of their variance that has a direction,
    the share that the signed distance explains, and the share of steps away from the query at which
    their mean over queries falls; and the signed distance at which this mean is largest.

    >>> distance = torch.arange(4.0)[None] - torch.arange(4.0)[:, None]
    >>> shape_of(-distance.abs())
    (0.0, 100.0, 100.0, 0.0)
    >>> shape_of(distance)
    (100.0, 100.0, 50.0, 3.0)
    """
    around = scores.double() - scores.double().mean()
    direction = float(((around - around.mT) / 2).square().sum() / around.square().sum())
    by_distance = profile(around)
    size = len(scores)
    places = torch.arange(size)[None, :] - torch.arange(size)[:, None] + size - 1
    explained = float(by_distance[places].square().sum() / around.square().sum())
    right, left = by_distance[size - 1 :], by_distance[:size].flip(0)
    falls = float(torch.cat([right.diff() < 0, left.diff() < 0]).double().mean())
    largest = float(by_distance.argmax()) - size + 1
    return 100 * direction, 100 * explained, 100 * falls, largest


def profile(scores: Tensor) -> Tensor:
    """Mean of the scores ``(q k)`` at each distance ``k - q``: ``(2 n - 1)``."""
    size = len(scores)
    return torch.stack([scores.diagonal(one).mean() for one in range(1 - size, size)])


def part_rows(found: Sequence[Sequence[dict[tuple[str, str], float]]]) -> list[list[str]]:
    """A row for each term of the scores: its share in each group of models, in %."""
    terms = [(f"{one}, {other}", [(one, other)]) for one in PARTS for other in PARTS[:2]]
    terms.append(("any, constant", [(one, PARTS[2]) for one in PARTS]))
    return [
        [
            name,
            *(
                mean_and_range([100 * sum(model[pair] for pair in pairs) for model in group], 0)
                for group in found
            ),
        ]
        for name, pairs in terms
    ]


def look(runs: Path, seeds: Sequence[int]) -> tuple[dict[str, list[list[str]]], TranslationTask]:
    """The rows of the tables of trained and untrained models, and the model of the first seed."""
    tasks = [trained(runs, "separate", seed, {}) for seed in seeds]
    start = [untrained(task, seed) for task, seed in zip(tasks, seeds, strict=True)]
    batches = [
        unseen(task, runs / "separate" / str(seed))[0]
        for task, seed in zip(tasks, seeds, strict=True)
    ]
    found = [
        [shares(*score_parts(*one, side)) for one in zip(group, batches, strict=True)]
        for group in (start, tasks)
        for side in ("encoder", "decoder")
    ]
    vectors = sinusoids(scored(tasks[0], "encoder")[1].weight.numel(), LENGTH)
    shapes = {"sinusoids themselves": [shape_of(vectors @ vectors.mT)]}
    for name, group in (("score, as initialised", start), ("score, trained", tasks)):
        shapes[name] = [shape_of(one) for task in group for one in position_scores(task)]
    forms = [
        [name, *(mean_and_range(column, 0) for column in zip(*each, strict=True))]
        for name, each in shapes.items()
    ]
    return {"parts": part_rows(found), "shapes": forms}, tasks[0]


def draw(task: TranslationTask) -> Any:
    """Similarity by distance, and what initial and trained projections make of it."""
    with styled(), torch.no_grad():
        figure = new_figure(10.0, 3.2)
        left, middle, right = figure.subplots(1, 3)
        for index, dim in enumerate((64, 128, 512)):
            shape = similarity(dim, 101).numpy()
            first = int(np.argmax(shape[1:] > shape[:-1]))
            left.plot(shape, label=f"width {dim}", **line_style(index))
            left.plot(first, shape[first], "o", color=line_style(index)["color"], markersize=4)
        left.set(title="similarity of two positions", xlabel="distance (tokens)", ylabel="cosine")
        left.legend()
        cases = (
            (middle, "score, projections as initialised", untrained(task, 1)),
            (right, "score, projections trained", task),
        )
        for axes, title, one in cases:
            for head, scores in enumerate(position_scores(one).double()):
                line = profile(scores).numpy()
                line = (line - line.mean()) / scores.std().item()
                axes.plot(range(1 - LENGTH, LENGTH), line, label=f"head {head}", **line_style(head))
            axes.axvline(0, color=GRID, zorder=0)
            axes.set(title=title, xlabel="key position \N{MINUS SIGN} query position")
        middle.set_ylabel("mean score of positions (deviations)", color=SOFT)
        right.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def find(runs: Path, seeds: Sequence[int] = SEEDS) -> Found:
    """All tables and the picture."""
    rows, task = look(runs, seeds)
    return Found(
        {
            "sinusoids": table(
                ["width", "error of the map", "first rises at", "cosine there", "rises up to 100"],
                exact_rows(),
            ),
            "sinusoids in scores": table(
                [
                    "scores of positions",
                    "direction, %",
                    "distance alone, %",
                    "falls, %",
                    "largest at",
                ],
                rows["shapes"],
            ),
            "parts of scores": table(
                [
                    "query, key",
                    *(
                        f"{side}, {when}"
                        for when in ("start", "trained")
                        for side in ("encoder", "decoder")
                    ),
                ],
                rows["parts"],
            ),
        },
        {"claims_sinusoids.png": draw(task)},
    )


if __name__ == "__main__":
    given = arguments(__doc__, runs=RUNS)
    publish(find(given.runs), given.write)
