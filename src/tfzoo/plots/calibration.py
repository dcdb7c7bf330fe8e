"""Whether a classifier is as sure as it is right."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from tfzoo.plots.style import COLOURS, SOFT, escape_dollars, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
