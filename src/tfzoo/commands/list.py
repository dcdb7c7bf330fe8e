"""tfzoo list [KIND]: components, a line each."""

from __future__ import annotations

from tfzoo.commands.words import Words
from tfzoo.errors import BadComponent
from tfzoo.registry import KINDS, registry
from tfzoo.terminal import print_result


def run(args: list[str]) -> int:
    """Print names, summaries and papers."""
    words = Words("list", "List components: name, what it is in one line, paper.")
    words.add_argument(
        "kind", nargs="?", metavar="KIND", help=f"one of {', '.join(KINDS)}; all when left out"
    )
    given = words.read(args)
    if given is None:
        return 0
    kinds = [given.kind] if given.kind else list(KINDS)
    for kind in kinds:
        names = registry(kind).names()
        if len(kinds) > 1:
            print_result(f"{kind}")
        width = max(map(len, names), default=0)
        for name in names:
            try:
                entry = registry(kind).entry(name)
            except BadComponent as error:  # another package's: the others are listed all the same
                print_result(f"  {name:<{width}}  cannot be used: {error}")
                continue
            print_result(
                f"  {name:<{width}}  {entry.summary}"
                + (f"  [{entry.paper}]" if entry.paper else "")
            )
    return 0
