"""tfzoo check KIND NAME: run a component's contract tests."""

from __future__ import annotations

from argparse import Namespace

from tfzoo.base.kinds import KINDS
from tfzoo.base.registry import registry
from tfzoo.base.terminal import print_result, progress
from tfzoo.commands.argument_parser import CommandParser


def make_parser() -> CommandParser:
    """The arguments of the command."""
    parser = CommandParser(
        "check",
        "Run the contract tests of one component, also of another package. Exit code 1 when a "
        "contract does not hold.",
        "docs/own-components.md says what is demanded.",
    )
    parser.add_argument("kind", metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("name", metavar="NAME", help="see tfzoo list KIND")
    parser.add_argument("--all", action="store_true", help="a line for every contract")
    return parser


def run(given: Namespace) -> int:
    """Print the contracts that do not hold, or with ``--all`` every one. Returns 1 if one does not
    hold.
    """
    registry(given.kind).entry(given.name)
    from tfzoo.testing import check

    count = held = 0
    with progress(f"checking {given.kind} {given.name}") as show:
        for result in check(given.kind, given.name):
            count, held = count + 1, held + result.ok
            if given.all or not result.ok:
                word = "ok    " if result.ok else "FAILED"
                how = f": {result.message}" if result.message else ""
                print_result(f"{word}  {result.name}{how}")
            else:
                show(f"{count}, {result.name}")
    print_result(
        f"{given.kind} {given.name}: {held} of {count} contracts hold"
        + ("" if given.all else " (--all prints each)")
    )
    return int(held < count)
