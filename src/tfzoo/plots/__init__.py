"""Pictures of runs and of parts, drawn with matplotlib. Names load when touched."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_WHERE = {
    "confusion_figure": "decisions",
    "curves_figure": "curves",
    "position_figure": "position",
    "read_runs": "curves",
}
__all__ = list(_WHERE)


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(f"tfzoo.plots.{_WHERE[name]}"), name)
    raise AttributeError(f"module 'tfzoo.plots' has no attribute {name!r}")
