"""Recipes that inherit from another recipe, their base: ``base: translation/numbers``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tfzoo.config import packaged
from tfzoo.config.loader import read_yaml
from tfzoo.config.merge import Layer
from tfzoo.errors import BadRecipe, did_you_mean, listing

KEY = "base"
"""The key of a recipe that names its base."""


def read_with_bases(path: Path, origin: str) -> list[Layer]:
    """Read a recipe, its base, the base of that, and so on. Return the last base first and the
    recipe last, so that later ones override earlier ones.

    ``base`` is a path, relative to the folder of the file that holds it, or a packaged name.

    Raises:
        BadRecipe: no such file, a file that is not a YAML mapping, or bases that form a cycle.
    """
    layers: list[Layer] = []
    seen: list[Path] = []
    while True:
        values = read_yaml(path)
        base = values.pop(KEY, None)
        layers.insert(0, Layer(values, origin, path))
        seen.append(path.resolve())
        if base is None:
            return layers
        path, origin = find_base(base, path, origin)
        if path.resolve() in seen:
            chain = " -> ".join(str(one) for one in [*seen, path.resolve()])
            raise BadRecipe(f"{seen[0]}: recipes that are based on each other: {chain}")


def find_base(base: Any, path: Path, origin: str) -> tuple[Path, str]:
    """Return the file that ``base`` in the file ``path`` names, and its name for messages."""
    if not isinstance(base, str):
        raise BadRecipe(f"{origin}: {KEY} is the name or the path of one recipe, not {base!r}")
    beside = path.parent / Path(base).expanduser()
    if beside.is_file():
        return beside, str(beside)
    name = base.removesuffix(".yaml")
    if name in packaged.names():
        return packaged.find(name), f"{name}.yaml"
    known = packaged.recipes()
    raise BadRecipe(
        f"{origin}: {KEY}: no recipe {base!r}, neither packaged nor a file beside {path.name}."
        f"{did_you_mean(base, known)} Packaged: {listing(known)}"
    )
