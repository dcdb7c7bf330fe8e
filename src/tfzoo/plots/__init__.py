"""Pictures of runs and of parts, drawn with matplotlib. Names load when touched."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfzoo.plots.attention import attention_figure
    from tfzoo.plots.curves import curves_figure, read_runs
    from tfzoo.plots.decisions import confusion_figure
    from tfzoo.plots.position import position_figure
    from tfzoo.plots.saturation import saturation_figure

_WHERE = {
    "attention_figure": "attention",
    "confusion_figure": "decisions",
    "curves_figure": "curves",
    "position_figure": "position",
    "read_runs": "curves",
    "saturation_figure": "saturation",
}

__all__ = [
    "attention_figure",
    "confusion_figure",
    "curves_figure",
    "position_figure",
    "read_runs",
    "saturation_figure",
]


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(f"tfzoo.plots.{_WHERE[name]}"), name)
    raise AttributeError(f"module 'tfzoo.plots' has no attribute {name!r}")
