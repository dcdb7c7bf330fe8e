"""The packaged recipes and sweeps: in ``recipes`` beside ``src`` in a checkout, inside the package
in an installation.
"""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path

from tfzoo.errors import BadRecipe, did_you_mean, listing

PACKAGE = Path(__file__).resolve().parents[1]
SWEEPS = "ablations"
"""The folder of sweeps, which vary a recipe."""


def folder() -> Path:
    """Return the folder of all packaged files."""
    beside = PACKAGE.parents[1] / "recipes"
    return beside if PACKAGE.parent.name == "src" and beside.is_dir() else PACKAGE / "recipes"


def names() -> list[str]:
    """Return all names: ``translation/numbers``, ``ablations/norm`` and so on."""
    return sorted(
        path.relative_to(folder()).with_suffix("").as_posix() for path in folder().rglob("*.yaml")
    )


def recipes() -> list[str]:
    """Return the names of recipes, which ``tfzoo fit`` trains."""
    return [name for name in names() if name.partition("/")[0] != SWEEPS]


def sweeps() -> list[str]:
    """Return the names of sweeps, which ``tfzoo sweep`` runs."""
    return [name for name in names() if name.partition("/")[0] == SWEEPS]


def find(recipe: str) -> Path:
    """Return the file of a recipe or sweep, given its packaged name or its path.

    Raises:
        BadRecipe: there is no such file.
    """
    path = Path(recipe)
    if path.is_file():
        return path
    if recipe.removesuffix(".yaml") in names():
        return folder() / f"{recipe.removesuffix('.yaml')}.yaml"
    if (path / "config.yaml").is_file():
        raise BadRecipe(f"{recipe} is the folder of a run: its recipe is {path / 'config.yaml'}")
    if path.suffix in (".yaml", ".yml") or path.is_absolute():
        raise BadRecipe(
            f"no recipe file {recipe}.{did_you_mean(recipe, names())} "
            "(tfzoo recipes lists the packaged ones)"
        )
    last = {name.rpartition("/")[2]: name for name in names()}
    hint = f" Did you mean {last[recipe]!r}?" if recipe in last else did_you_mean(recipe, names())
    raise BadRecipe(
        f"no recipe named {recipe!r}.{hint} Known: {listing(names())} (tfzoo recipes), "
        "or the path of a YAML file"
    )


def summary(name: str) -> str:
    """Return the first paragraph of a file's comment header; ``""`` if there is none."""
    lines = find(name).read_text("utf-8").splitlines()
    header = takewhile(lambda line: line.startswith("# "), lines)
    return " ".join(line.removeprefix("# ").strip() for line in header)
