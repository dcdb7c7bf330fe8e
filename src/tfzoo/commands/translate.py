"""tfzoo translate RUN [FILE]: text in, translations out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tfzoo.commands.text_lines import OnProgress, Truncated, line_parser, load_task, process_lines
from tfzoo.terminal import notify

EPILOG = """\
For each input line, also an empty one, one line is written, in the same order. With --n-best N
there are up to N lines for each, best first, none twice. With --scores each line begins with its
score (log probability divided by the length penalty) and a tab.
"""


def run(args: list[str]) -> int:
    """Translate a file or standard input."""
    parser = line_parser("translate", "Translate lines of text with a trained run.", EPILOG)
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
        help="translations of each line, at most as many as the beam; without --beam, a beam of N "
        "if the recipe's is narrower",
    )
    parser.add_argument("--scores", action="store_true", help="write scores too")
    given = parser.parse(args)
    if given is None:
        return 0
    task = load_task(given, "translation", "translate")
    truncated, beam = Truncated(), task.search.beam
    if given.beam is None and (given.n_best or 1) > beam:
        notify(f"--n-best {given.n_best} takes a beam of {given.n_best}; the recipe's is {beam}")

    def translate(lines: Sequence[str], progress: OnProgress | None) -> Iterator[str]:
        for best in task.translations(
            lines,
            n_best=given.n_best or 1,
            beam=given.beam,
            length_penalty=given.length_penalty,
            max_tokens=given.max_tokens,
            progress=progress,
            on_truncated=truncated.add,
        ):
            for one in best:
                yield f"{one.score:.4f}\t{one.text}" if given.scores else one.text

    process_lines(given, translate)
    truncated.notify()
    return 0
