"""A sample by day, all of them by night."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def sampled(values: Iterable[Any], by_day: Collection[Any]) -> list[Any]:
    """Parameters of a test, of which those that are not in ``by_day`` run nightly."""
    return [
        value if value in by_day else pytest.param(value, marks=pytest.mark.nightly)
        for value in values
    ]
