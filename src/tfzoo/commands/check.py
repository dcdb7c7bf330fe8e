"""tfzoo check KIND NAME: run a component's contract tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfzoo.commands.argument_parser import CommandParser
from tfzoo.kinds import KINDS
from tfzoo.registry import registry
from tfzoo.terminal import print_result

if TYPE_CHECKING:
    from tfzoo.testing import Result


def run(args: list[str]) -> int:
    """Print a line for each contract and style rule. Returns 1 if a contract does not hold."""
    parser = CommandParser(
        "check",
        "Run the contract tests of one component, also of another package. Exit code 1 when a "
        "contract does not hold; rules of style are reported and fail with --style alone.",
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
    given = parser.parse(args)
    if given is None:
        return 0
    registry(given.kind).entry(given.name)
    from tfzoo.testing import check

    results = []
    for result in check(given.kind, given.name, partners=given.partners):
        results.append(result)
        print_result(line(result))
    held = [result for result in results if result.ok and not result.style]
    count = sum(not result.style for result in results)
    broken = sum(result.style and not result.ok for result in results)
    print_result(
        f"{given.kind} {given.name}: {len(held)} of {count} contracts hold, "
        f"{broken} {'rule' if broken == 1 else 'rules'} of style broken"
    )
    return int(len(held) < count or not count or (given.style and broken > 0))


def line(result: Result) -> str:
    """Format a result: ``FAILED  padding has no influence: off by 0.3``."""
    word = "ok    " if result.ok else "style " if result.style else "FAILED"
    return f"{word}  {result.name}" + (f": {result.message}" if result.message else "")
