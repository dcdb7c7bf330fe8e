"""tfzoo check KIND NAME: run a component's contract tests."""

from __future__ import annotations

from tfzoo.commands.words import Words
from tfzoo.registry import KINDS, registry
from tfzoo.terminal import print_result


def run(args: list[str]) -> int:
    """Print a line for each promise; 1 when one is broken."""
    words = Words(
        "check",
        "Run the contract tests of one component, one's own too. Exit code 1 when one fails.",
    )
    words.add_argument("kind", metavar="KIND", help=", ".join(KINDS))
    words.add_argument("name", metavar="NAME", help="see tfzoo list KIND")
    given = words.read(args)
    if given is None:
        return 0
    registry(given.kind).entry(given.name)
    from tfzoo.testing import check

    count = failed = 0
    for result in check(given.kind, given.name):
        count, failed = count + 1, failed + (not result.ok)
        print_result(
            f"{'ok    ' if result.ok else 'FAILED'}  {result.name}"
            + (f": {result.message}" if result.message else "")
        )
    print_result(f"{given.kind} {given.name}: {count - failed} of {count} promises kept")
    return 1 if failed or not count else 0
