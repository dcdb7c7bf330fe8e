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
    """Print the folder and size of the cache, and the addresses of which it has copies; with
    ``--clear`` empty it.
    """
    from tfzoo.base import cache
    from tfzoo.data import remote

    print_result(f"{cache.folder()}  {readable(cache.size())}")
    for address, size in remote.copies():
        print_result(f"  copy of {address}  {readable(size)}")
    if given.clear:
        print_result(f"cleared {readable(cache.clear())}")
    return 0
