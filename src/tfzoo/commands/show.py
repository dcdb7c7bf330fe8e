"""tfzoo show KIND NAME: describe one component."""

from __future__ import annotations

from argparse import Namespace

from tfzoo.base.kinds import KINDS
from tfzoo.base.registry import describe, list_components
from tfzoo.base.terminal import print_result
from tfzoo.commands.argument_parser import CommandParser
from tfzoo.errors import TfzooError


def make_parser() -> CommandParser:
    """The arguments of the command."""
    parser = CommandParser(
        "show", "Formula, paper, options with types and defaults, and traits of one component."
    )
    parser.add_argument("kind", metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("name", metavar="NAME", nargs="?", help="see tfzoo list KIND")
    return parser


def run(given: Namespace) -> int:
    """Print the entry of a component."""
    if given.name is None:
        found = [kind for kind, names in list_components().items() if given.kind in names]
        told = [f"tfzoo show {kind} {given.kind}" for kind in found] or ["tfzoo show KIND NAME"]
        raise TfzooError(f"NAME is missing: {' or '.join(told)} (tfzoo show --help)")
    print_result(str(describe(given.kind, given.name)))
    return 0
