"""tfzoo check KIND NAME: run a component's contract tests."""

from __future__ import annotations

import re
import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tfzoo.base.kinds import KINDS
from tfzoo.base.registry import registry
from tfzoo.base.terminal import print_result, progress, wrap
from tfzoo.commands.argument_parser import CommandParser

if TYPE_CHECKING:
    from tfzoo.testing import Result


PLACE = re.compile(r" \([^()]+\.py, line \d+\)")
"""The line of a component that raised an error, as contracts name it."""
MOST_LINES = 10
"""The most lines that are printed without ``--all``."""


def make_parser() -> CommandParser:
    """The arguments of the command."""
    parser = CommandParser(
        "check",
        "Run the contract tests of one component, also of another package. Exit code 1 when a "
        "contract does not hold; rules of style are reported and fail with --style alone. Causes "
        "are printed, the first one first; --all prints every contract.",
        "docs/own-components.md lists the contracts.",
    )
    parser.add_argument("kind", metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("name", metavar="NAME", help="see tfzoo list KIND")
    parser.add_argument(
        "--with",
        dest="partners",
        choices=("own", "all"),
        default="own",
        help="partners in models: tfzoo's own components (default), or all that are installed",
    )
    parser.add_argument("--style", action="store_true", help="fail where a rule of style is broken")
    parser.add_argument("--all", action="store_true", help="a line for every contract and rule")
    return parser


def run(given: Namespace) -> int:
    """Print why contracts do not hold, or with ``--all`` a line for each. Returns 1 if one does not
    hold.
    """
    registry(given.kind).entry(given.name)
    from tfzoo.testing import check

    results = []
    with progress(f"checking {given.kind} {given.name}") as show:
        for result in check(given.kind, given.name, partners=given.partners):
            results.append(result)
            if given.all:
                print_result(line(result))
            else:
                show(f"{len(results)}, {result.name}")
    if not given.all:
        for text in causes(results, MOST_LINES - 2):
            print_result(text)
    held = [result for result in results if result.ok and not result.style]
    count = sum(not result.style for result in results)
    broken = sum(result.style and not result.ok for result in results)
    print_result(
        f"{given.kind} {given.name}: {len(held)} of {count} contracts hold, "
        f"{broken} {'rule' if broken == 1 else 'rules'} of style broken"
    )
    if not given.all:
        with_all = " ".join(["tfzoo", *given.words, "--all"])
        print_result(f"{with_all} prints every contract")
    return int(len(held) < count or not count or (given.style and broken > 0))


def causes(results: Sequence[Result], most: int) -> list[str]:
    """What went wrong, in at most so many lines: the first contract that a cause breaks, and how
    many others it breaks. Contracts come before rules of style.
    """
    wrong = sorted((one for one in results if not one.ok), key=lambda one: one.style)
    alike: dict[str, list[Result]] = {}
    for result in wrong:
        place = PLACE.search(result.message)
        alike.setdefault(place[0] if place else line(result), []).append(result)
    texts: list[str] = []
    told = 0
    for number, (first, *others) in enumerate(alike.values()):
        text = line(first)
        if others:
            text += f"; the same in {len(others)} more"
        lines = wrap(text, sys.stdout).split("\n")[:most]
        if len(texts) + len(lines) > most - (number < len(alike) - 1):
            return [*texts, f"        and {len(wrong) - told} more"]
        texts, told = texts + lines, told + 1 + len(others)
    return texts


def line(result: Result) -> str:
    """Format a result: ``FAILED  padding has no influence: off by 0.3``."""
    word = "ok    " if result.ok else "style " if result.style else "FAILED"
    return f"{word}  {result.name}" + (f": {result.message}" if result.message else "")
