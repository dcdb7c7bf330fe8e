"""Arguments that have a new name: the old one is accepted for one release, with a hint. And
options whose meaning changed: what tfzoo 0.1 wrote is converted.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from tfzoo.errors import BadOption

P = ParamSpec("P")
R = TypeVar("R")


def renamed(**names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorator for a function whose keyword arguments were renamed: ``@renamed(old="new")``.

    A call with an old name gives a ``FutureWarning``. Recipes read the names with
    :func:`renamed_keys`.

    Raises:
        BadOption: (in the decorated function) old and new name are given together.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def accept(*args: P.args, **kwargs: P.kwargs) -> R:
            for old, new in names.items():
                if old in kwargs:
                    if new in kwargs:
                        raise BadOption(f"{old} is now called {new}; give {new} alone")
                    warnings.warn(hint(old, new), FutureWarning, stacklevel=2)
                    kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        accept.renamed = names  # type: ignore[attr-defined]  # read by renamed_keys
        return accept

    return decorate


def renamed_keys(cls: type) -> Mapping[str, str]:
    """The new names of a constructor's arguments by their old ones."""
    found: Mapping[str, Any] = getattr(cls.__init__, "renamed", {})  # type: ignore[misc]
    return found


METRICS = {"exact": "exact_match"}
"""The new names of metrics by their old ones."""


def metric_name(name: str, warn: bool = False) -> str:
    """The current name of a metric: ``test/long/exact_match`` for ``test/long/exact``. ``warn``
    where a user typed it.
    """
    split, slash, last = name.rpartition("/")
    if not slash or last not in METRICS:
        return name
    new = f"{split}/{METRICS[last]}"
    if warn:
        warnings.warn(hint(name, new), FutureWarning, stacklevel=2)
    return new


def hint(old: str, new: str) -> str:
    """What a user is told who types the old name."""
    return f"`{old}` is now called `{new}`; the old name works until tfzoo 0.3"


GATED_IN_0_1 = re.compile("geglu|swiglu")
"""The gated feed-forward layers of tfzoo 0.1, whose width was two thirds of ``hidden``."""


def with_gated_widths(values: Any, key: str = "") -> Any:
    """A configuration that tfzoo 0.1 wrote, with the true width as ``hidden`` of gated layers.

    >>> with_gated_widths({"feedforward": {"name": "swiglu", "hidden": 528}})
    {'feedforward': {'name': 'swiglu', 'hidden': 352}}
    """
    if not isinstance(values, Mapping):
        return values
    if key == "feedforward" and GATED_IN_0_1.fullmatch(str(values.get("name"))):
        hidden = values.get("hidden")
        # rounded to the nearest whole number, as 0.1 did
        return {**values, "hidden": (2 * hidden + 1) // 3} if isinstance(hidden, int) else values
    return {name: with_gated_widths(value, name) for name, value in values.items()}
