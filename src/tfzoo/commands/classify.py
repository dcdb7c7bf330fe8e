"""tfzoo classify RUN [FILE]: text in, labels out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tfzoo.commands.text_lines import (
    OnProgress,
    Truncated,
    line_parser,
    load_task,
    process_lines,
    tsv_cell,
)
from tfzoo.errors import TfzooError

EPILOG = """\
For each input line, also an empty one, one line is written, in the same order: the label as in the
training data, a tab, and its probability. With --top-k N this repeats for N labels in the same
line, the most probable first. With --probabilities the first line has all labels, and each line
after it the probabilities of an input line, in the same order, separated by tabs.
"""


def run(args: list[str]) -> int:
    """Classify a file or standard input."""
    parser = line_parser("classify", "Classify lines of text with a trained run.", EPILOG)
    parser.add_argument(
        "--top-k", type=int, metavar="N", help="write the N most probable labels of each line"
    )
    parser.add_argument(
        "--probabilities",
        action="store_true",
        help="write a table of the probabilities of all labels",
    )
    given = parser.parse(args)
    if given is None:
        return 0
    if given.top_k is not None and (given.top_k < 1 or given.probabilities):
        raise TfzooError("--top-k must be at least 1, and --probabilities has all labels")
    task = load_task(given, "classification", "classify")
    truncated = Truncated()

    def classify(lines: Sequence[str], progress: OnProgress | None) -> Iterator[str]:
        for found in task.classifications(
            lines,
            top_k=None if given.probabilities else given.top_k or 1,
            max_tokens=given.max_tokens,
            progress=progress,
            on_truncated=truncated.add,
        ):
            if given.probabilities:
                probability = dict(found)
                yield "\t".join(f"{probability[label]:.4f}" for label in task.labels)
            else:
                yield "\t".join(f"{tsv_cell(label)}\t{p:.4f}" for label, p in found)

    header = "\t".join(map(tsv_cell, task.labels)) if given.probabilities else None
    process_lines(given, classify, header)
    truncated.notify()
    return 0
