"""tfzoo translate RUN [FILE]: text in, translations out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tfzoo.commands.lines import Progress, open_task, pour, words

EPILOG = """\
One line is written for each line read, in order, also for an empty one. With --n-best N there are N lines for each, best first; fewer
where no more are found. With --scores each begins with its score (log probability over the length penalty) and a tab.
"""


def run(args: list[str]) -> int:
    """Translate a file or standard input."""
    parser = words("translate", "Translate lines of text with a trained run.", EPILOG)
    parser.add_argument(
        "--beam",
        type=int,
        metavar="N",
        help="hypotheses kept at a time; 1 is greedy; default: the recipe's",
    )
    parser.add_argument(
        "--length-penalty",
        type=float,
        metavar="A",
        help="alpha of the length penalty; default: the recipe's",
    )
    parser.add_argument(
        "--n-best",
        type=int,
        metavar="N",
        help="translations of each line, at most as many as the beam",
    )
    parser.add_argument("--scores", action="store_true", help="write scores too")
    given = parser.read(args)
    if given is None:
        return 0
    task = open_task(given, "translation", "translate")
    how = {
        "beam": given.beam,
        "length_penalty": given.length_penalty,
        "n_best": 1 if given.n_best is None else given.n_best,
    }
    if given.beam is None and (given.n_best or 1) > task.search.beam:
        how["beam"] = given.n_best
    task.search = replace(
        task.search, **{key: value for key, value in how.items() if value is not None}
    )

    def use(lines: Sequence[str], progress: Progress | None) -> Iterator[str]:
        for best in task.translations(lines, max_tokens=given.max_tokens, progress=progress):
            for one in best:
                yield f"{one.score:.4f}\t{one.text}" if given.scores else one.text

    pour(given, use)
    return 0
