"""Pictures of a training, in its folder and in its loggers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tfzoo.base.terminal import notify
from tfzoo.errors import BadRun
from tfzoo.plots.curves import curves_figure
from tfzoo.plots.loggers import log_figure
from tfzoo.plots.metrics import read_run
from tfzoo.plots.style import save

CURVES = "curves.png"


def draw_curves(folder: Path, loggers: Sequence[Any], step: int) -> None:
    """Draw the learning curves of a run, unless it has logged nothing. If that fails, a message
    says so.
    """
    try:
        figure = curves_figure([read_run(folder)])
        save(figure, folder / CURVES)
    except BadRun:
        return
    except Exception as error:  # a picture does not end a run
        notify(f"no {CURVES}: {' '.join(f'{type(error).__name__}: {error}'.split())[:200]}")
        return
    log_figure(loggers, "curves", lambda: figure, step)
