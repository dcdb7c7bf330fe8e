"""tfzoo cache [--clear]: where prepared data lies, how large it is."""

from __future__ import annotations

from tfzoo.commands.words import Words
from tfzoo.terminal import print_result


def run(args: list[str]) -> int:
    """Say where the cache is; with ``--clear`` empty it."""
    words = Words(
        "cache",
        "Say where prepared data lies and how large it is. TFZOO_CACHE names another folder.",
    )
    words.add_argument(
        "--clear", action="store_true", help="remove it; it is prepared again when it is needed"
    )
    given = words.read(args)
    if given is None:
        return 0
    from tfzoo.data import cache

    print_result(f"{cache.folder()}  {readable(cache.size())}")
    if given.clear:
        print_result(f"cleared {readable(cache.clear())}")
    return 0


def readable(size: float) -> str:
    """``"1.2 MB"``"""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
