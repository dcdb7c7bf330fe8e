"""tfzoo recipes [NAME] [--copy PATH]: packaged recipes, and sweeps over them."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from tfzoo.base.terminal import notify, print_result
from tfzoo.commands.argument_parser import CommandParser
from tfzoo.config.recipe import (
    SWEEPS,
    find_recipe,
    header_of,
    packaged_recipes,
    packaged_sweeps,
)
from tfzoo.errors import TfzooError


def make_parser() -> CommandParser:
    """The arguments of the command."""
    parser = CommandParser(
        "recipes", "List the packaged recipes and sweeps, print one, or copy one to edit it."
    )
    parser.add_argument(
        "name",
        nargs="?",
        metavar="NAME",
        help="print this recipe; ablations: list the packaged sweeps",
    )
    parser.add_argument(
        "--copy",
        metavar="PATH",
        help="write it to a new file, or into a folder; an existing file is not overwritten",
    )
    return parser


def run(given: Namespace) -> int:
    """List recipes, print one, or copy it."""
    if given.name is None:
        if given.copy:
            raise TfzooError(
                "--copy needs the name of a recipe: "
                "tfzoo recipes translation/numbers --copy mine.yaml"
            )
        print_result("tfzoo fit ...")
        list_names(packaged_recipes())
        print_result(f"Sweeps, which vary a recipe: tfzoo recipes {SWEEPS}")
        return 0
    if given.name == SWEEPS:
        print_result("tfzoo sweep ...")
        list_names(packaged_sweeps())
        return 0
    text = find_recipe(given.name).read_text("utf-8")
    if given.copy is None:
        print_result(text.rstrip())
        return 0
    path = Path(given.copy)
    path = path / f"{given.name.rpartition('/')[2]}.yaml" if path.is_dir() else path
    try:
        with path.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        raise TfzooError(f"{path} exists already: name another file, or remove it") from None
    except OSError as error:
        raise TfzooError(f"cannot copy to {path}: {error.strerror}") from None
    command = "sweep" if given.name in packaged_sweeps() else "fit"
    notify(f"copied to {path}; run it with: tfzoo {command} {path}")
    return 0


def list_names(names: Sequence[str]) -> None:
    """Print names with a line of description."""
    width = max(map(len, names), default=0)
    for name in names:
        print_result(f"  {name:<{width}}  {header_of(name)}")
