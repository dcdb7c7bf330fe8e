"""Does Xavier's initialisation give embeddings of variance 1/d, and what is left of them beside
sinusoids?

    python -m benchmarks.claims.embeddings --write
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.claims.shared import Found, arguments, publish, table
from tfzoo.models.embedding import Embedding
from tfzoo.plots.style import line_style, new_figure, styled

SIZES = ((64, 64), (420, 64), (512, 512), (8_000, 512), (37_000, 512), (50_257, 768))
"""Vocabulary and width: square ones, those of the packaged recipes and of GPT-2."""
SINUSOIDS = 0.5
"""The mean square of a sine and a cosine of one angle."""


def xavier(vocabulary: int, dim: int) -> float:
    """Glorot and Bengio 2010, eq. 16: the variance of a matrix ``(v d)``."""
    return 2 / (vocabulary + dim)


def drawn(start: Callable[[Tensor], Any], vocabulary: int, dim: int) -> float:
    """The variance of embeddings that ``start`` has drawn."""
    weight = torch.empty(vocabulary, dim)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        start(weight)
    return float(weight.var())


def content(variance: float, scale: float = 1.0) -> float:
    """The share of the embeddings in the variance of their sum with sinusoids."""
    return scale * variance / (scale * variance + SINUSOIDS)


def share(variance: float, dim: int) -> list[str]:
    """Without and with the factor sqrt(d)."""
    return [f"{100 * content(variance, scale):.3g} %" for scale in (1, dim)]


def variances() -> list[list[str]]:
    """By size: the formula, what is drawn, and the multiple of 1/d."""
    rows = []
    for vocabulary, dim in SIZES:
        variance = xavier(vocabulary, dim)
        measured = drawn(nn.init.xavier_uniform_, vocabulary, dim)
        cells = [f"{variance:.3g}", f"{measured:.3g}", f"{variance * dim:.3g}"]
        rows.append([f"{vocabulary:,}", f"{dim}", *cells, *share(variance, dim)])
    return rows


def starts(vocabulary: int = 8_000, dim: int = 512) -> list[list[str]]:
    """By initialisation: the variance drawn, and the share of content."""

    def ours(weight: Tensor) -> None:
        weight.copy_(Embedding(*weight.shape).weight.detach())

    cases: dict[str, Callable[[Tensor], Any]] = {
        "`xavier_uniform_`, 2/(V + d)": nn.init.xavier_uniform_,
        "tfzoo, N(0, 1/d)": ours,
        "`nn.Embedding`, N(0, 1)": nn.init.normal_,
        "N(0, 0.02^2) (BERT, GPT-2)": lambda weight: nn.init.normal_(weight, std=0.02),
    }
    rows = []
    for name, start in cases.items():
        variance = drawn(start, vocabulary, dim)
        rows.append([name, f"{variance:.3g}", *share(variance, dim)])
    return rows


def draw() -> Any:
    """The share of content by the size of the vocabulary."""
    sizes = [2**power for power in range(5, 18)]
    with styled():
        figure = new_figure(9.0, 3.2)
        for axes, title, scaled in zip(
            figure.subplots(1, 2, sharey=True),
            ("embeddings as they are", "embeddings times sqrt(d)"),
            (False, True),
            strict=True,
        ):
            for index, dim in enumerate((64, 512)):
                factor = dim if scaled else 1
                style = line_style(index)
                lines = [100 * content(xavier(size, dim), factor) for size in sizes]
                axes.plot(sizes, lines, label=f"Xavier, width {dim}", **style)
                level = 100 * content(1 / dim, factor)
                axes.axhline(level, label=f"N(0, 1/d), width {dim}", **{**style, "linestyle": ":"})
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter("{x:g}")
            axes.set_xticks(sizes[::3], [f"{size:,}" for size in sizes[::3]])
            axes.set(title=title, xlabel="size of the vocabulary")
        figure.axes[0].set_ylabel("share of the embeddings, %")
        figure.axes[1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def find() -> Found:
    """Both tables and the picture."""
    beside = ["content beside sinusoids", "times sqrt(d)"]
    return Found(
        {
            "variance of embeddings": table(
                ["V", "d", "2/(V + d)", "variance of one drawn", "that times d", *beside],
                variances(),
            ),
            "starts of embeddings": table(["V 8,000, d 512", "variance", *beside], starts()),
        },
        {"claims_embeddings.png": draw()},
    )


if __name__ == "__main__":
    given = arguments(__doc__)
    publish(find(), given.write)
