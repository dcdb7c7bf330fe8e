"""Pictures in loggers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from tfzoo.base.terminal import say
from tfzoo.plots.style import pixels

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def log_figure(loggers: Iterable[Any], name: str, draw: Callable[[], Figure], step: int) -> None:
    """Draw a picture for the loggers that take pictures: Weights & Biases, TensorBoard. If it
    cannot be drawn or logged, a message says so.
    """
    taking = [
        one for one in loggers if hasattr(one, "log_image") or hasattr(board(one), "add_image")
    ]
    if not taking:
        return
    try:
        picture = pixels(draw())
        for logger in taking:
            if hasattr(logger, "log_image"):
                logger.log_image(name, images=[picture])
            else:
                board(logger).add_image(name, picture, step, dataformats="HWC")
                board(logger).flush()
    except Exception as error:  # a picture does not end a run
        why = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        say(f"no picture {name} in the logger: {why}")


def board(logger: Any) -> Any:
    """TensorBoard's writer, where the logger has one."""
    return getattr(logger, "experiment", None)
