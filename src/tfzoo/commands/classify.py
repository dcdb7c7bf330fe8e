"""tfzoo classify RUN [FILE]: text in, labels out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tfzoo.commands.lines import Progress, cell, open_task, pour, words
from tfzoo.terminal import notify

EPILOG = """\
One line is written for each line read, in order, also for an empty one: the label as the training data writes it, a tab, and its
probability.
"""


def run(args: list[str]) -> int:
    """Classify a file or standard input."""
    given = words("classify", "Classify lines of text with a trained run.", EPILOG).read(args)
    if given is None:
        return 0
    task = open_task(given, "classification", "classify")

    cut: list[int] = []

    def use(lines: Sequence[str], progress: Progress | None) -> Iterator[str]:
        for label, probability in task.classify(
            lines, max_tokens=given.max_tokens, progress=progress, cut=cut.append
        ):
            yield f"{cell(label)}\t{probability:.4f}"

    pour(given, use)
    if sum(cut):
        notify(
            f"{sum(cut):,} line{'s' * (sum(cut) != 1)} longer than what the classifier reads: only the beginning counts (data.max_length)"
        )
    return 0
