"""tfzoo recipes [NAME] [--copy PATH]: packaged recipes, and sweeps over them."""

from __future__ import annotations

from pathlib import Path

from tfzoo.commands.words import Words
from tfzoo.config import packaged
from tfzoo.errors import TfzooError
from tfzoo.terminal import notify, print_result


def run(args: list[str]) -> int:
    """List recipes, print one, or copy it."""
    words = Words(
        "recipes", "List the packaged recipes and sweeps, print one, or copy one to edit it."
    )
    words.add_argument("name", nargs="?", metavar="NAME", help="print this recipe")
    words.add_argument(
        "--copy",
        metavar="PATH",
        help="write it to a file (or into a folder) instead; never over one that is there",
    )
    given = words.read(args)
    if given is None:
        return 0
    if given.name is None:
        if given.copy:
            raise TfzooError(
                "--copy needs the name of a recipe: tfzoo recipes translation/numbers --copy mine.yaml"
            )
        list_all()
        return 0
    text = packaged.find(given.name).read_text("utf-8")
    if given.copy is None:
        print_result(text.rstrip())
        return 0
    path = Path(given.copy)
    path = path / f"{given.name.rpartition('/')[2]}.yaml" if path.is_dir() else path
    try:
        with path.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        raise TfzooError(f"cannot copy to {path}: {error.strerror}") from None
    notify(
        f"copied to {path}; run it with: tfzoo {'sweep' if given.name in packaged.sweeps() else 'fit'} {path}"
    )
    return 0


def list_all() -> None:
    """A line each, under what runs them."""
    width = max(map(len, packaged.names()), default=0)
    for heading, names in (("tfzoo fit", packaged.recipes()), ("tfzoo sweep", packaged.sweeps())):
        print_result(f"{heading} ...")
        for name in names:
            print_result(f"  {name:<{width}}  {packaged.summary(name)}")
