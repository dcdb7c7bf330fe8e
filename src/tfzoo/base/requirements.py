"""Packages that only some of tfzoo needs."""

from __future__ import annotations

from importlib.util import find_spec

from tfzoo.errors import TfzooError


def require(package: str, extra: str) -> None:
    """Raise TfzooError where a package is not installed; it says how to install the extra."""
    if find_spec(package) is None:
        raise TfzooError(f"{package} is not installed: pip install 'tfzoo[{extra}]'")
