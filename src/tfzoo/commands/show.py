"""tfzoo show KIND NAME: everything known about one component."""

from __future__ import annotations

from tfzoo.commands.words import Words
from tfzoo.registry import KINDS, describe
from tfzoo.terminal import print_result


def run(args: list[str]) -> int:
    """Print the entry of a component."""
    words = Words(
        "show", "Formula, paper, options with types and defaults, and traits of one component."
    )
    words.add_argument("kind", metavar="KIND", help=", ".join(KINDS))
    words.add_argument("name", metavar="NAME", help="see tfzoo list KIND")
    given = words.read(args)
    if given is not None:
        print_result(str(describe(given.kind, given.name)))
    return 0
