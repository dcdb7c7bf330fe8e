"""tfzoo classify RUN [FILE]: text in, labels out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tfzoo.commands.text_lines import (
    OnProgress,
    line_parser,
    load_task,
    process_lines,
    tsv_cell,
)
from tfzoo.terminal import notify

EPILOG = """\
For each input line, also an empty one, one line is written, in the same order: the label as in the
training data, a tab, and its probability.
"""


def run(args: list[str]) -> int:
    """Classify a file or standard input."""
    given = line_parser("classify", "Classify lines of text with a trained run.", EPILOG).parse(
        args
    )
    if given is None:
        return 0
    task = load_task(given, "classification", "classify")

    truncated: list[int] = []

    def classify(lines: Sequence[str], progress: OnProgress | None) -> Iterator[str]:
        for label, probability in task.classify(
            lines, max_tokens=given.max_tokens, progress=progress, cut=truncated.append
        ):
            yield f"{tsv_cell(label)}\t{probability:.4f}"

    process_lines(given, classify)
    if count := sum(truncated):
        notify(
            f"{count:,} line{'s' * (count != 1)} longer than what the classifier reads: "
            "only the beginning counts (data.max_length)"
        )
    return 0
