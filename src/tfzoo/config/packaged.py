"""The recipes and sweeps that come with tfzoo: beside ``src`` in a checkout, inside the package
when installed.
"""

from __future__ import annotations

from pathlib import Path

from tfzoo.errors import BadRecipe, did_you_mean, listing

PACKAGE = Path(__file__).resolve().parents[1]
SWEEPS = "ablations"
"""The folder of those that are no recipes, but vary one."""


def folder() -> Path:
    """Where they lie."""
    beside = PACKAGE.parents[1] / "recipes"
    return beside if PACKAGE.parent.name == "src" and beside.is_dir() else PACKAGE / "recipes"


def names() -> list[str]:
    """All names, ``translation/numbers``, ``ablations/norm`` and so on."""
    return sorted(
        path.relative_to(folder()).with_suffix("").as_posix() for path in folder().rglob("*.yaml")
    )


def recipes() -> list[str]:
    """The names of what ``tfzoo fit`` trains."""
    return [name for name in names() if name.partition("/")[0] != SWEEPS]


def sweeps() -> list[str]:
    """The names of what ``tfzoo sweep`` runs."""
    return [name for name in names() if name.partition("/")[0] == SWEEPS]


def find(recipe: str) -> Path:
    """The file of a recipe or sweep, given by packaged name or by path.

    Raises:
        BadRecipe: there is neither.
    """
    path = Path(recipe)
    if path.is_file():
        return path
    if recipe.removesuffix(".yaml") in names():
        return folder() / f"{recipe.removesuffix('.yaml')}.yaml"
    if path.suffix in (".yaml", ".yml") or path.is_absolute():
        raise BadRecipe(
            f"no recipe file {recipe}.{did_you_mean(recipe, names())} (tfzoo recipes lists the packaged ones)"
        )
    last = {name.rpartition("/")[2]: name for name in names()}
    hint = f" Did you mean {last[recipe]!r}?" if recipe in last else did_you_mean(recipe, names())
    raise BadRecipe(
        f"no recipe named {recipe!r}.{hint} Known: {listing(names())} (tfzoo recipes), or the path of a YAML file"
    )


def summary(name: str) -> str:
    """The first line of a file's header."""
    first = find(name).read_text("utf-8").partition("\n")[0]
    return first.lstrip("# ").strip() if first.startswith("#") else ""
