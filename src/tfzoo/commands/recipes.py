"""tfzoo recipes [NAME] [--copy PATH]: packaged recipes, and sweeps over them."""

from __future__ import annotations

from pathlib import Path

from tfzoo.commands import packaged
from tfzoo.commands.output import put, say
from tfzoo.commands.words import Words
from tfzoo.errors import TfzooError


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
        put(text.rstrip())
        return 0
    path = Path(given.copy)
    path = path / f"{given.name.rpartition('/')[2]}.yaml" if path.is_dir() else path
    try:
        with path.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        raise TfzooError(f"cannot copy to {path}: {error.strerror}") from None
    say(
        f"copied to {path}; run it with: tfzoo {'sweep' if given.name in packaged.sweeps() else 'fit'} {path}"
    )
    return 0


def list_all() -> None:
    """A line each, under what runs them."""
    width = max(map(len, packaged.names()), default=0)
    for heading, names in (("tfzoo fit", packaged.recipes()), ("tfzoo sweep", packaged.sweeps())):
        put(f"{heading} ...")
        for name in names:
            put(f"  {name:<{width}}  {packaged.summary(name)}")
