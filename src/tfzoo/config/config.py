"""The configuration of one training, resolved and checked."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfzoo.config.arguments import Arguments
from tfzoo.config.merge import Draft, absolute, draft
from tfzoo.errors import TfzooError
from tfzoo.terminal import silence_lightning

if TYPE_CHECKING:
    from jsonargparse import Namespace

    from tfzoo.config.lightning import Parser


@dataclass
class Job:
    """A training that was found possible."""

    name: str
    task: Any
    draft: Draft
    parser: Parser
    values: Namespace
    recipe: dict[str, Any]


TRAINERS = {"trainer", "checkpoint"}
"""Sections that Lightning checks."""


def resolve(
    layers: Sequence[tuple[Mapping[str, Any], str]],
    arguments: Arguments,
    trust: bool,
    path: Path,
    untried: Collection[str] | None = (),
) -> Job:
    """Parse and check everything that can be checked without reading data; all sections but
    ``untried`` (None: all) are built once.

    Raises:
        BadRecipe, BadOption, UnknownName, Clash: one line that says what is wrong and where.
    """
    if trust:
        _import_beside(path)
    task, found = draft(layers, arguments, trust)
    from tfzoo.config import lightning

    silence_lightning()
    used = lightning.parser(found, trust)
    values = lightning.check(used, found)
    recipe = absolute(lightning.resolved(used, values))
    if untried is not None:
        _try(
            found.known.keys() - TRAINERS - set(untried),
            task.sizes(data=recipe["data"]),
            recipe,
            found,
        )
    return Job(path.stem, task, found, used, values, recipe)


def _try(
    tried: Collection[str], sizes: Mapping[str, Any], recipe: Mapping[str, Any], found: Draft
) -> None:
    """Build model and settings once, without memory: their constructors refuse what cannot be."""
    import torch

    supplied = {"model": sizes, "data": {"seed": recipe["seed"]}}
    for section in [name for name in found.known if name in tried]:
        try:
            with torch.device("meta"):
                found.known[section].cls(**supplied.get(section, {}), **recipe[section])
        except TfzooError as error:
            given = {place for key, place in found.origin.items() if key.startswith(f"{section}.")}
            files = sorted(place for place in given if not place.startswith("--"))
            error.args = (
                (f"{files[0]}: {section}: {error}",)
                if files and len(given) == len(files)
                else (f"{section}: {error}",)
            )
            raise


def _import_beside(path: Path) -> None:
    """A trusted recipe may name classes of modules beside it."""
    import sys

    beside = str(path.resolve().parent)
    if beside not in sys.path:
        sys.path.insert(0, beside)
