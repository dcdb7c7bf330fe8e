"""Have several heads more parameters, does each learn something else, and can one be dropped?

    python -m benchmarks.claims.heads --write

Small translators are trained in ``--runs``, half a minute each, if they are not there.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.claims.shared import (
    RUNS,
    SEEDS,
    Found,
    arguments,
    mean_and_range,
    publish,
    real_tokens,
    table,
    trained,
    unseen,
    untrained,
)
from tfzoo import MultiheadAttention, attention_maps
from tfzoo.data.batches import ParallelBatch
from tfzoo.models.mixer import Mixer
from tfzoo.models.multihead import SelfOrCrossAttention
from tfzoo.plots.style import line_style, new_figure, styled
from tfzoo.tasks.translation import TranslationTask

MODELS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "4 of 16": ("separate", {}),
    "4 of 64": ("wide", {"model.head_dim": 64}),
}
"""Heads and their width: the name of the trained models, and options of the recipe."""
Likeness = dict[str, tuple[float, float]]
"""Mean CKA and mean correlation of two heads, by attention."""


def parameters(dim: int = 512) -> list[list[str]]:
    """By number of heads: the parameters where heads divide the width and where each keeps it."""
    rows = []
    for heads in (1, 2, 4, 8, 16, 32):
        sizes = [
            sum(
                p.numel()
                for p in MultiheadAttention(dim, heads, head_dim=width, device="meta").parameters()
            )
            for width in (None, dim)
        ]
        rows.append([f"{heads}", f"{dim // heads}", *(f"{size:,}" for size in sizes)])
    return rows


def attentions(model: nn.Module) -> dict[str, SelfOrCrossAttention]:
    """The attentions of a translator by name: ``encoder 1``, ``decoder 1``, ``cross 1``."""
    found = {}
    for path, module in model.named_modules():
        if isinstance(module, SelfOrCrossAttention):
            side, _, layer = path.split(".")[:3]
            kind = side if isinstance(module, Mixer) else "cross"
            found[f"{kind} {int(layer) + 1}"] = module
    return dict(sorted(found.items(), key=lambda one: ("edc".index(one[0][0]), one[0])))


def cka(x: Tensor, y: Tensor) -> float:
    """Linear centred kernel alignment of two sets of vectors ``(t e)`` (Kornblith et al. 2019,
    arXiv:1905.00414, eq. 4): 1 if one is a rotated and scaled copy of the other.

    >>> x = torch.randn(50, 4, dtype=torch.float64)
    >>> round(cka(x, 3 * x[:, [2, 0, 3, 1]] + 1), 6)
    1.0
    """
    x, y = x - x.mean(0), y - y.mean(0)
    alike: Tensor = (y.mT @ x).norm() ** 2 / ((x.mT @ x).norm() * (y.mT @ y).norm())
    return float(alike)


def correlation(x: Tensor, y: Tensor, visible: Tensor) -> float:
    """Of two maps ``(b q k)`` over the keys that a query sees, each row without its mean."""
    count = visible.sum(-1, keepdim=True).clamp(min=1)
    x, y = (one.masked_fill(~visible, 0.0) for one in (x, y))
    x, y = ((one - one.sum(-1, keepdim=True) / count)[visible] for one in (x, y))
    return float((x * y).sum() / (x.norm() * y.norm()).clamp(min=1e-30))


def visible_keys(task: TranslationTask, batch: ParallelBatch, name: str) -> Tensor:
    """The keys that each real query sees: ``(b q k)``."""
    queries = real_tokens(batch, "encoder" if name.startswith("encoder") else "decoder")
    keys = real_tokens(batch, "decoder" if name.startswith("decoder") else "encoder")
    visible = queries[:, :, None] & keys[:, None, :]
    return visible.tril() if name.startswith("decoder") else visible


@torch.no_grad()
def likeness(task: TranslationTask, batch: ParallelBatch) -> Likeness:
    """How alike the heads of each attention are, mean over pairs."""
    blocks, outputs = attentions(task.model), dict[str, Tensor]()
    hooks = [
        block.attention.register_forward_hook(
            lambda _, __, out, name=name: outputs.update({name: out})
        )
        for name, block in blocks.items()
    ]
    with attention_maps(task.model) as maps:
        task.loss(batch)
    for hook in hooks:
        hook.remove()
    paths = {module: path for path, module in task.model.named_modules()}
    found: Likeness = {}
    for name, block in blocks.items():
        visible = visible_keys(task, batch, name)
        real = visible.any(-1)
        heads = outputs[name].transpose(0, 1)
        (weights,) = maps[paths[block.attention]]
        pairs = list(combinations(range(len(heads)), 2))
        found[name] = (
            float(np.mean([cka(heads[i][real], heads[j][real]) for i, j in pairs])),
            float(np.mean([correlation(weights[:, i], weights[:, j], visible) for i, j in pairs])),
        )
    return found


@contextmanager
def without_head(block: SelfOrCrossAttention, head: int) -> Iterator[None]:
    """Inside, the output projection does not read this head."""
    weight = block.output.weight
    width = weight.shape[1] // block.heads
    columns = slice(head * width, (head + 1) * width)
    before = weight[:, columns].detach().clone()
    with torch.no_grad():
        weight[:, columns] = 0.0
        yield
        weight[:, columns] = before


@torch.no_grad()
def mean_loss(task: TranslationTask, batch: ParallelBatch) -> float:
    """Cross entropy per token, in nats: the logarithm of ``test/perplexity``."""
    _, losses, _ = task.loss(batch)
    return float(losses.mean())


def rises(task: TranslationTask, batch: ParallelBatch) -> dict[tuple[str, int], float]:
    """How much the loss rises without each head, in %."""
    whole, found = mean_loss(task, batch), {}
    for name, block in attentions(task.model).items():
        for head in range(block.heads):
            with without_head(block, head):
                found[name, head] = 100 * (mean_loss(task, batch) / whole - 1)
    return found


def right(task: TranslationTask, pairs: Sequence[tuple[str, str]]) -> float:
    """The share of sentences that are translated as the reference, in %."""
    sources, references = zip(*pairs, strict=True)
    same = [one == other for one, other in zip(task.translate(sources), references, strict=True)]
    return 100 * sum(same) / len(same)


def dropped_row(task: TranslationTask, rise: Mapping[tuple[str, int], float], pairs: Any) -> Any:
    """Translations right with all heads, without the least and without the most needed one."""
    found = [right(task, pairs)]
    for name, head in (min(rise, key=rise.__getitem__), max(rise, key=rise.__getitem__)):
        with without_head(attentions(task.model)[name], head):
            found.append(right(task, pairs))
    return found


def look(runs: Path, seeds: Sequence[int], name: str) -> dict[str, Any]:
    """Likeness at the start and after training, and rises of the loss, of each seed's model."""
    folder, options = MODELS[name]
    found: dict[str, Any] = {"start": [], "trained": [], "rises": [], "right": []}
    for seed in seeds:
        task = trained(runs, folder, seed, options)
        batch, pairs = unseen(task, runs / folder / str(seed))
        found["start"].append(likeness(untrained(task, seed), batch))
        found["trained"].append(likeness(task, batch))
        found["rises"].append(rises(task, batch))
        found["right"].append(dropped_row(task, found["rises"][-1], pairs))
    return found


def likeness_rows(looks: Mapping[str, dict[str, Any]], measure: int) -> list[list[str]]:
    """A row for each attention: CKA (measure 0) or correlation (1) of each kind of model, at the
    start and trained.
    """
    first = next(iter(looks.values()))["start"][0]
    return [
        [
            name,
            *(
                mean_and_range([one[name][measure] for one in found[when]])
                for found in looks.values()
                for when in ("start", "trained")
            ),
        ]
        for name in first
    ]


def drop_rows(looks: Mapping[str, dict[str, Any]]) -> list[list[str]]:
    """A row for each kind of model: how much the loss rises without one head."""
    rows = []
    for name, found in looks.items():
        every = [list(one.values()) for one in found["rises"]]
        columns = [
            [min(one) for one in every],
            [float(np.median(one)) for one in every],
            [max(one) for one in every],
            *zip(*found["right"], strict=True),
        ]
        under = sum(rise < 1 for one in every for rise in one)
        cells = [mean_and_range(column, 1) for column in columns]
        rows.append([name, *cells[:3], f"{under} of {sum(map(len, every))}", *cells[3:]])
    return rows


def draw(looks: Mapping[str, dict[str, Any]]) -> Any:
    """The rise of the loss without each head, and the likeness of heads, by attention."""
    with styled():
        figure = new_figure(10.0, 3.4)
        left, middle = figure.subplots(1, 2)
        names = list(next(iter(looks.values()))["start"][0])
        for index, (model, found) in enumerate(looks.items()):
            colour, shift = line_style(index)["color"], 0.3 * index - 0.15
            dots = {"color": colour, "linestyle": "", "markersize": 4}
            points = [
                (names.index(name) + shift, rise)
                for one in found["rises"]
                for (name, _), rise in one.items()
            ]
            left.plot(*zip(*points, strict=True), marker="o", alpha=0.6, **dots)
            for when, marker, fill in (("start", "o", "none"), ("trained", "o", colour)):
                points = [
                    (names.index(name) + shift, values[0])
                    for one in found[when]
                    for name, values in one.items()
                ]
                label = f"{model}, {when}"
                middle.plot(*zip(*points, strict=True), marker, mfc=fill, label=label, **dots)
        left.set_yscale("symlog", linthresh=1)
        left.yaxis.set_major_formatter("{x:g}")
        left.set(title="loss without one head", ylabel="rise, %")
        middle.set(title="likeness of the outputs of two heads", ylabel="CKA", ylim=(0, 1))
        for axes in (left, middle):
            axes.set_xticks(range(len(names)), [name.replace(" ", "\n") for name in names])
        middle.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def find(runs: Path, seeds: Sequence[int] = SEEDS) -> Found:
    """All tables and the picture."""
    looks = {name: look(runs, seeds, name) for name in MODELS}
    cases = [f"{name}, {when}" for name in looks for when in ("start", "trained")]
    losses = ["least, %", "median, %", "largest, %", "under 1 %"]
    answers = ["right with all, %", "without the least needed", "without the most needed"]
    return Found(
        {
            "parameters of heads": table(
                ["heads", "width d/h", "parameters", "heads of width d"], parameters()
            ),
            "outputs of heads": table(["CKA of outputs", *cases], likeness_rows(looks, 0)),
            "maps of heads": table(["correlation of maps", *cases], likeness_rows(looks, 1)),
            "dropped heads": table(["heads", *losses, *answers], drop_rows(looks)),
        },
        {"claims_heads.png": draw(looks)},
    )


if __name__ == "__main__":
    given = arguments(__doc__, runs=RUNS)
    publish(find(given.runs), given.write)
