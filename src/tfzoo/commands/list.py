"""tfzoo list [KIND]: list components, one per line."""

from __future__ import annotations

from argparse import Namespace

from tfzoo.base.kinds import KINDS
from tfzoo.base.registry import registry
from tfzoo.base.terminal import print_result
from tfzoo.commands.argument_parser import CommandParser
from tfzoo.errors import BadComponent


def make_parser() -> CommandParser:
    """The arguments of the command."""
    parser = CommandParser("list", "List components with name, summary and paper.")
    parser.add_argument(
        "kind", nargs="?", metavar="KIND", help=f"one of {', '.join(KINDS)}; all when left out"
    )
    return parser


def run(given: Namespace) -> int:
    """Print names, summaries and papers."""
    kinds = [given.kind] if given.kind else list(KINDS)
    for kind in kinds:
        names = registry(kind).names()
        if len(kinds) > 1:
            print_result(f"{kind}")
        width = max(map(len, names), default=0)
        # Importing a task takes seconds; the line of its own says what it does.
        of_tasks = registry(kind).declared("about") if kind == "task" else {}
        for name in names:
            if name in of_tasks:
                print_result(f"  {name:<{width}}  {of_tasks[name]}")
                continue
            try:
                entry = registry(kind).entry(name)
            except BadComponent as error:  # of another package; the others are still listed
                print_result(f"  {name:<{width}}  cannot be used: {error}")
                continue
            print_result(
                f"  {name:<{width}}  {entry.summary}"
                + (f"  [{entry.paper}]" if entry.paper else "")
            )
    return 0
