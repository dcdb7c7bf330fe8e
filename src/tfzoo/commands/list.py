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
        summaries = registry(kind).declared("about" if kind == "task" else "summary")
        papers = registry(kind).declared("paper")
        for name in names:
            if name not in summaries:  # of another package, which does not say it in its source
                try:
                    entry = registry(kind).entry(name)
                    summaries[name], papers[name] = entry.summary, entry.paper
                except BadComponent as error:  # the others are still listed
                    summaries[name] = f"cannot be used: {error}"
            paper = f"  [{papers[name]}]" if papers.get(name) else ""
            print_result(f"  {name:<{width}}  {summaries[name]}{paper}")
    return 0
