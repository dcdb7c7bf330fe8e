"""tfzoo cache [--clear]: show or clear the cache of prepared data."""

from __future__ import annotations

from argparse import Namespace

from tfzoo.base.terminal import print_result
from tfzoo.base.values import readable
from tfzoo.commands.argument_parser import CommandParser


def make_parser() -> CommandParser:
    """The arguments of the command."""
    parser = CommandParser(
        "cache",
        "Print the folder and size of the cache of prepared data. TFZOO_CACHE sets another folder.",
    )
    parser.add_argument(
        "--clear", action="store_true", help="delete it; data is prepared again when it is needed"
    )
    return parser


def run(given: Namespace) -> int:
    """Print the folder and size of the cache; with ``--clear`` empty it."""
    from tfzoo.base import cache

    print_result(f"{cache.folder()}  {readable(cache.size())}")
    if given.clear:
        print_result(f"cleared {readable(cache.clear())}")
    return 0
