"""A picture of what a classifier confuses."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING

from torch import Tensor

from tfzoo.plots.style import INK, SHARES, escape_dollars, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_NUMBERED = 24
"""The maximum number of classes for which the counts are written into the cells."""

MAX_LABEL = 24
"""The maximum number of characters of a label; longer ones are shortened."""


def confusion_figure(matrix: Tensor, labels: Sequence[str], title: str) -> Figure:
    """Draw a confusion matrix ``(c p)``: rows are true classes, columns predicted ones, the colour
    is the share of the row.
    """
    counts = matrix.cpu()
    shares = counts / counts.sum(1, keepdim=True).clamp(min=1)
    short = [label if len(label) <= MAX_LABEL else f"{label[: MAX_LABEL - 1]}…" for label in labels]
    names = [escape_dollars(label) for label in short]
    size = 2.5 + 0.45 * min(len(names), 40)
    with styled():
        figure = new_figure(size + 1, size)
        axes = figure.add_subplot()
        axes.grid(False)
        image = axes.imshow(shares.numpy(), cmap=SHARES, vmin=0.0, vmax=1.0)
        figure.colorbar(image, ax=axes, label="share of the row")
        axes.set_xticks(range(len(names)), names, rotation=90)
        axes.set_yticks(range(len(names)), names)
        axes.set(xlabel="classified as", ylabel="is", title=escape_dollars(title))
        for row, column in product(range(len(names)), repeat=2):
            if len(names) <= MAX_NUMBERED:
                colour = "white" if shares[row, column] > 0.5 else INK
                count = str(int(counts[row, column]))
                axes.text(column, row, count, ha="center", va="center", color=colour, size=8)
    return figure
