"""tfzoo show KIND NAME: describe one component."""

from __future__ import annotations

from tfzoo.commands.argument_parser import CommandParser
from tfzoo.kinds import KINDS
from tfzoo.registry import describe
from tfzoo.terminal import print_result


def run(args: list[str]) -> int:
    """Print the entry of a component."""
    parser = CommandParser(
        "show", "Formula, paper, options with types and defaults, and traits of one component."
    )
    parser.add_argument("kind", metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("name", metavar="NAME", help="see tfzoo list KIND")
    given = parser.parse(args)
    if given is not None:
        print_result(str(describe(given.kind, given.name)))
    return 0
