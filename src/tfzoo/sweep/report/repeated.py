"""Whether verdicts held in a repeat with other seeds: a line and a table for each metric."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tfzoo.sweep.judge.repeats import Repeat, Repeats
from tfzoo.sweep.judge.sentences import format_p
from tfzoo.sweep.judge.verdicts import Judged
from tfzoo.sweep.report.heat import difference
from tfzoo.sweep.report.numbers import NONE

HEADS = ("first", "again", "together", "p", "outcome")


def summary(found: Repeats) -> str:
    """``val/loss with seeds 6 to 10 after 1 to 5: of 4 verdicts 2 held, 2 not confirmed``."""
    return (
        f"{found.metric} with seeds {spans(found.again_seeds)} after {spans(found.first_seeds)}: "
        f"{found.sentence}"
    )


def rows(found: Repeats, title: Callable[[Judged], str]) -> Iterator[list[str]]:
    """A name, the difference to the baseline three times, the repeat's p, and the outcome."""
    for one in found.all:
        p = NONE if one.p is None else format_p(one.p)
        yield [title(one.first), *differences(one), p, one.outcome]


def differences(one: Repeat) -> list[str]:
    """The difference with its interval and mark, by the first runs, the repeat, and together."""
    return [difference(judged) for judged in (one.first, one.again, one.pooled)]


def spans(seeds: Sequence[int]) -> str:
    """``1 to 5, 8``."""
    parts: list[list[int]] = []
    for seed in seeds:
        if parts and seed == parts[-1][-1] + 1:
            parts[-1].append(seed)
        else:
            parts.append([seed])
    return ", ".join(
        f"{part[0]} to {part[-1]}" if len(part) > 1 else f"{part[0]}" for part in parts
    )
