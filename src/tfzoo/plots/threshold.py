"""What the threshold of labels decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tfzoo.plots.style import SOFT, escape_dollars, line_style, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

THRESHOLDS = 201


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
