"""Pictures of runs and of parts, drawn with matplotlib. Names load when touched."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfzoo.plots.attention import attention_figure
    from tfzoo.plots.confusion import confusion_figure
    from tfzoo.plots.position import position_figure

__all__ = ["attention_figure", "confusion_figure", "position_figure"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module(f"tfzoo.plots.{name.removesuffix('_figure')}"), name)
    raise AttributeError(f"module 'tfzoo.plots' has no attribute {name!r}")
