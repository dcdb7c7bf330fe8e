"""A confusion matrix as an image, and images in loggers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_NUMBERED = 24
"""The maximum number of classes for which the counts are written into the cells."""

MAX_LABEL = 24
"""The maximum number of characters of a label; longer ones are shortened."""


def confusion_picture(matrix: Tensor, labels: Sequence[str], title: str) -> NDArray[np.uint8]:
    """The pixels of :func:`confusion_figure`, RGBA: ``(height width 4)``."""
    canvas: Any = confusion_figure(matrix, labels, title).canvas
    with warnings.catch_warnings():  # labels may have characters that the font lacks
        warnings.filterwarnings("ignore", "Glyph .* missing")
        canvas.draw()
    return np.array(canvas.buffer_rgba(), dtype=np.uint8)


def confusion_figure(matrix: Tensor, labels: Sequence[str], title: str) -> Figure:
    """Draw a confusion matrix ``(c c)``: rows are true classes, columns predicted ones, the colour
    is the share of the texts of the true class.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    counts = matrix.cpu()
    shares = counts / counts.sum(1, keepdim=True).clamp(min=1)
    names = [label if len(label) <= MAX_LABEL else f"{label[: MAX_LABEL - 1]}…" for label in labels]
    size = 2.5 + 0.45 * min(len(names), 40)
    figure = Figure(figsize=(size + 1, size), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    image = axes.imshow(shares.numpy(), cmap="Blues", vmin=0.0, vmax=1.0)
    figure.colorbar(image, ax=axes, label="share of the row")
    axes.set_xticks(range(len(names)), [escape_dollars(name) for name in names], rotation=90)
    axes.set_yticks(range(len(names)), [escape_dollars(name) for name in names])
    axes.set(xlabel="classified as", ylabel="is", title=escape_dollars(title))
    if len(names) <= MAX_NUMBERED:
        for row in range(len(names)):
            for column in range(len(names)):
                colour = "white" if shares[row, column] > 0.5 else "black"
                axes.text(
                    column,
                    row,
                    f"{int(counts[row, column])}",
                    ha="center",
                    va="center",
                    color=colour,
                    fontsize=8,
                )
    return figure


def escape_dollars(text: str) -> str:
    """Escape dollar signs, with which matplotlib marks formulas."""
    return text.replace("$", r"\$")


def log_image(logger: Any, name: str, picture: Callable[[], Any], step: int) -> None:
    """Log an image, if the logger accepts images."""
    board: Any = getattr(logger, "experiment", None)
    if hasattr(logger, "log_image"):  # Weights & Biases
        logger.log_image(name, images=[picture()])
    elif hasattr(board, "add_image"):  # TensorBoard
        board.add_image(name, picture(), step, dataformats="HWC")
