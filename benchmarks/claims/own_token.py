"""Is a token most similar to itself where queries and keys have no separate projections?

    python -m benchmarks.claims.own_token --write

The first table takes random tokens, in float64. For the second, small translators are trained in
``--runs``, half a minute each, if they are not there.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.claims.shared import (
    RUNS,
    SEEDS,
    Found,
    arguments,
    mean_and_range,
    publish,
    table,
    trained,
    unseen,
    untrained,
)
from tfzoo import EncoderLayer, attention_maps
from tfzoo.data.batches import ParallelBatch
from tfzoo.learning.explain import recorded
from tfzoo.plots.style import SOFT, line_style, new_figure, styled
from tfzoo.tasks.translation import TranslationTask

PROJECTIONS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "separate": ("separate", {}),
    "shared": ("shared", {"model.share_query_key": True}),
    "none": ("none", {"model.projections": "none"}),
}
"""Of queries and keys: the name of the trained models, and options of the recipe."""
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "separate": {},
    "shared": {"share_query_key": True},
    "none": {"projections": "none"},
}
TOKENS, DIM = 10, 64


def own_share(heads: int, norm: str, options: Mapping[str, Any], texts: int = 200) -> float:
    """The share of random tokens whose largest weight is their own, in %, with projections as
    initialised; their vectors are normally distributed, and ``layer`` makes them of one length.
    """
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        x = torch.randn(texts, TOKENS, DIM, dtype=torch.float64)
        layer = EncoderLayer(DIM, heads=heads, norm=norm, **options).double().eval()
        with attention_maps(layer) as maps:
            layer(x)
    ((weights,),) = maps.values()
    return 100 * float((weights.argmax(-1) == torch.arange(TOKENS)).double().mean())


def random_rows() -> list[list[str]]:
    """By projection: the share for tokens of one length and of several, with one head and four."""
    cases = [(heads, norm) for norm in ("layer", "none") for heads in (1, 4)]
    return [
        [name, *(f"{own_share(heads, norm, options):.3g}" for heads, norm in cases)]
        for name, options in OPTIONS.items()
    ]


@torch.no_grad()
def own_token(task: TranslationTask, batch: ParallelBatch) -> dict[str, float]:
    """``explain/SIDE/own_token`` of encoder and decoder, in %."""
    found: dict[str, list[Tensor]] = defaultdict(list)
    with recorded(task.model, found):
        task.loss(batch)
    return {
        side: 100 * float(torch.stack(found[f"{side}/own_token"]).mean())
        for side in ("encoder", "decoder")
    }


def look(runs: Path, seeds: Sequence[int]) -> dict[str, list[float]]:
    """The shares of each kind of projection at the start and trained, by seed."""
    found: dict[str, list[float]] = defaultdict(list)
    for name, (folder, options) in PROJECTIONS.items():
        for seed in seeds:
            task = trained(runs, folder, seed, options)
            batch, _ = unseen(task, runs / folder / str(seed))
            for when, one in (("start", untrained(task, seed)), ("trained", task)):
                for side, value in own_token(one, batch).items():
                    found[f"{name}, {side}, {when}"].append(value)
    return found


def draw(found: Mapping[str, Sequence[float]]) -> Any:
    """The shares at the start and after training."""
    with styled():
        figure = new_figure(8.0, 3.0)
        for axes, side in zip(
            figure.subplots(1, 2, sharey=True), ("encoder", "decoder"), strict=True
        ):
            for index, name in enumerate(PROJECTIONS):
                ends = [found[f"{name}, {side}, {when}"] for when in ("start", "trained")]
                for number, line in enumerate(zip(*ends, strict=True)):
                    label = None if number else name
                    axes.plot(line, marker="o", markersize=4, label=label, **line_style(index))
            axes.set_xticks([0, 1], ["as initialised", "trained"])
            axes.set(title=side, xlim=(-0.2, 1.2), ylim=(0, 103))
        figure.axes[0].set_ylabel("largest weight is the token's own, %", color=SOFT)
        figure.axes[1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def find(runs: Path, seeds: Sequence[int] = SEEDS) -> Found:
    """Both tables and the picture."""
    found = look(runs, seeds)
    cases = [f"{side}, {when}" for side in ("encoder", "decoder") for when in ("start", "trained")]
    rows = [
        [name, *(mean_and_range(found[f"{name}, {case}"], 0) for case in cases)]
        for name in PROJECTIONS
    ]
    columns = ["one length, 1 head", "4 heads", "any length, 1 head", "4 heads"]
    return Found(
        {
            "own token of random tokens": table(["projections", *columns], random_rows()),
            "own token of translators": table(["projections", *cases], rows),
        },
        {"claims_own_token.png": draw(found)},
    )


if __name__ == "__main__":
    given = arguments(__doc__, runs=RUNS)
    publish(find(given.runs), given.write)
