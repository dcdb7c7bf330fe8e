"""Pictures of a classifier's decisions: what it confuses, whether it is as sure as it is right, and
what the threshold of labels decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from tfzoo.plots.style import (
    COLOURS,
    INK,
    SHARES,
    SOFT,
    escape_dollars,
    line_style,
    new_figure,
    styled,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_NUMBERED = 24
"""The maximum number of classes for which the counts are written into the cells."""

MAX_LABEL = 24
"""The maximum number of characters of a label; longer ones are shortened."""

THRESHOLDS = 201
"""The number of thresholds at which a curve is drawn."""


def confusion_figure(
    matrix: Tensor, labels: Sequence[str], title: str, *, predicted: Sequence[str] | None = None
) -> Figure:
    """Draw a confusion matrix ``(c p)``: rows are true classes, columns predicted ones, the colour
    is the share of the row. ``predicted`` are the names of columns, if they are not ``labels``.
    """
    counts = matrix.cpu()
    shares = counts / counts.sum(1, keepdim=True).clamp(min=1)
    names, columns = shortened(labels), shortened(labels if predicted is None else predicted)
    size = 2.5 + 0.45 * min(len(names), 40)
    with styled():
        figure = new_figure(size + 1, size)
        axes = figure.add_subplot()
        axes.grid(False)
        image = axes.imshow(shares.numpy(), cmap=SHARES, vmin=0.0, vmax=1.0)
        figure.colorbar(image, ax=axes, label="share of the row")
        axes.set_xticks(range(len(columns)), columns, rotation=90)
        axes.set_yticks(range(len(names)), names)
        axes.set(xlabel="classified as", ylabel="is", title=escape_dollars(title))
        for row, column in product(range(len(names)), range(len(columns))):
            if len(names) <= MAX_NUMBERED:
                colour = "white" if shares[row, column] > 0.5 else INK
                count = str(int(counts[row, column]))
                axes.text(column, row, count, ha="center", va="center", color=colour, size=8)
    return figure


def shortened(labels: Sequence[str]) -> list[str]:
    """Labels as they are written beside an axis."""
    names = [label if len(label) <= MAX_LABEL else f"{label[: MAX_LABEL - 1]}…" for label in labels]
    return [escape_dollars(name) for name in names]


def calibration_figure(bins: Tensor, title: str) -> Figure:
    """Draw the accuracy of texts against the probability that the model gives to their predicted
    class, and below it the share of texts of each probability (reliability diagram; Guo et al.
    2017, arXiv:1706.04599, figure 1). A calibrated model is on the diagonal.

    Args:
        bins: ``(m 3)``: texts, mean probability and accuracy in each of ``m`` equal intervals of
            the probability.
    """
    counts, confidence, accuracy = bins.cpu().double().numpy().T
    some = counts > 0
    shares = counts / max(counts.sum(), 1)
    places = (np.arange(len(counts)) + 0.5) / len(counts)
    with styled():
        figure = new_figure(4.2, 4.8)
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
        above.plot((0, 1), (0, 1), color=SOFT, linewidth=0.8, linestyle=(0, (2, 2)))
        above.plot(confidence[some], accuracy[some], color=COLOURS[0], marker="o", markersize=4)
        above.annotate(
            "calibrated",
            (0.03, 0.03),
            xytext=(8, 0),
            textcoords="offset points",
            size=8,
            color=SOFT,
        )
        above.set(ylabel="accuracy", ylim=(-0.03, 1.03), title=escape_dollars(title))
        below.bar(places, shares, width=0.9 / len(counts), color=COLOURS[0])
        below.set(xlabel="probability of the predicted class", ylabel="share of texts")
        below.set_xlim(-0.03, 1.03)
        below.set_ylim(0, max(1.05 * shares.max(), 0.01))
    return figure


def threshold_figure(probability: Tensor, label: Tensor, threshold: float, title: str) -> Figure:
    """Draw precision, recall and F1 over all decisions, against the probability over which a label
    is predicted, and mark the model's threshold.

    Args:
        probability, label: ``(texts labels)``, labels as 0 and 1.
    """
    thresholds = torch.linspace(0, 1, THRESHOLDS, dtype=torch.float64)
    probability, label = probability.cpu().double().flatten(), label.cpu().bool().flatten()
    every, positive = probability.sort().values, probability[label].sort().values
    taken = len(every) - torch.searchsorted(every, thresholds, right=True)
    right = len(positive) - torch.searchsorted(positive, thresholds, right=True)
    curves = {
        "precision": torch.where(taken > 0, right / taken.clamp(min=1), torch.nan),
        "recall": right / max(len(positive), 1),
        "micro F1": 2 * right / (taken + len(positive)).clamp(min=1),
    }
    with styled():
        figure = new_figure(5.2, 3.6)
        axes = figure.add_subplot()
        for index, (name, values) in enumerate(curves.items()):
            axes.plot(thresholds, values, label=name, **line_style(index))
        axes.axvline(threshold, color=SOFT, linewidth=0.8, linestyle=(0, (2, 2)))
        left = threshold > 0.7
        axes.annotate(
            f"threshold {threshold:.2f}",
            (threshold, 1.0),
            xytext=(-3 if left else 3, 0),
            textcoords="offset points",
            ha="right" if left else "left",
            va="bottom",
            size=8,
            color=SOFT,
        )
        axes.set(
            xlabel="probability over which a label is predicted", xlim=(0, 1), ylim=(-0.03, 1.08)
        )
        axes.set_title(escape_dollars(title))
        figure.legend(loc="outside lower left", ncols=3)
    return figure
