"""tfzoo check KIND NAME: run a component's contract tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfzoo.commands.words import Words
from tfzoo.registry import KINDS, registry
from tfzoo.terminal import print_result

if TYPE_CHECKING:
    from tfzoo.testing import Result


def run(args: list[str]) -> int:
    """Print a line for each contract and rule of style; 1 when a contract does not hold."""
    words = Words(
        "check",
        "Run the contract tests of one component, also of another package. Exit code 1 when a "
        "contract does not hold; rules of style are reported and fail with --style alone.",
        "docs/own-components.md lists what is demanded.",
    )
    words.add_argument("kind", metavar="KIND", help=", ".join(KINDS))
    words.add_argument("name", metavar="NAME", help="see tfzoo list KIND")
    words.add_argument(
        "--with",
        dest="partners",
        choices=("own", "all"),
        default="own",
        help="partners in models: tfzoo's own components (default), or all that are installed",
    )
    words.add_argument("--style", action="store_true", help="fail where a rule of style is broken")
    given = words.read(args)
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
    """How a result is printed: ``FAILED  padding has no influence: off by 0.3``."""
    word = "ok    " if result.ok else "style " if result.style else "FAILED"
    return f"{word}  {result.name}" + (f": {result.message}" if result.message else "")
