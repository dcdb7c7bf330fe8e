"""tfzoo attention RUN TEXT: the attention of a trained run in one text, as a page."""

from __future__ import annotations

import sys
import warnings
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfzoo.base.terminal import notify, print_result
from tfzoo.base.values import parse_number
from tfzoo.commands.argument_parser import CommandParser
from tfzoo.commands.predict import load_task, open_output
from tfzoo.data.table import decoded
from tfzoo.errors import BadData, BadOption, TfzooError
from tfzoo.runs.run import Run

if TYPE_CHECKING:
    from tfzoo.plots.attention import AttentionMaps

FILE = "attention.html"
PAGE = ".html"
EPILOG = """\
The page shows each layer and head, of the encoder, of the decoder and between them, as lines and as
a heat map; hover over a token to see its weights. It is one file, which needs no network. A
translator's decoder is shown in its own translation of the text. Layers are counted from 0.

tfzoo attention runs/numbers/1 "two plus two"                        writes attention.html
tfzoo attention runs/numbers/1 "two plus two" --compare runs/gru/1   two runs side by side
"""


def run(given: Namespace) -> int:
    """Write the page of one text."""
    if given.output != "-" and Path(given.output).suffix.lower() != PAGE:
        raise TfzooError(f"--output {given.output}: a page is written, whose name ends in {PAGE}")
    names = [given.run, *([given.compare] if given.compare else [])]
    first, *others = [Run(name) for name in names]
    text = (given.text if given.text is not None else read_text()).strip()
    if not text:
        raise BadData('the text is empty: tfzoo attention RUN "a sentence"')
    tasks = [load_task(first, given.device)]
    for other in others:
        other.check_task(tasks[0].entry.name)
        tasks.append(load_task(other, given.device))
    runs = [maps_of(task, text, name) for task, name in zip(tasks, names, strict=True)]
    for maps in runs if given.layers else ():
        own = sorted({one.layer for one in maps})
        if not given.layers <= {*own}:
            raise TfzooError(
                f"--layers: {maps.run} has no such attention map; layers with one: "
                + ", ".join(map(str, own))
            )
    runs = [maps.of_layers(given.layers) for maps in runs] if given.layers else runs
    from tfzoo.plots.attention import attention_page

    with open_output(None if given.output == "-" else given.output) as out:
        out.write(attention_page(*runs))
    if given.output != "-":
        print_result(given.output)
    return 0


def make_parser() -> CommandParser:
    """The arguments of the command."""
    parser = CommandParser("attention", "Show the attention of a trained run in one text.", EPILOG)
    parser.add_run()
    parser.add_argument(
        "text", metavar="TEXT", nargs="?", help="one text; standard input when left out"
    )
    parser.add_argument(
        "--compare", metavar="RUN2", help="show this run, of the same task, beside the first"
    )
    parser.add_argument(
        "--output",
        metavar="FILE",
        default=FILE,
        help="the page to write, or - for standard output (default: %(default)s)",
    )
    parser.add_argument(
        "--layers", type=numbers, metavar="N,N", help="these layers alone, such as 0,5"
    )
    parser.add_device()
    return parser


def numbers(text: str) -> set[int]:
    """Whole numbers between commas."""
    return {parse_number(one, int) for one in text.split(",")}


def read_text() -> str:
    """The one line of standard input that is not empty; "" if there is none."""
    if sys.stdin is None or sys.stdin.isatty():
        raise BadData('TEXT is missing: tfzoo attention RUN "a sentence"')
    lines = [line for line in decoded(sys.stdin.buffer, "standard input") if line.strip()]
    if len(lines) > 1:
        raise BadData(f"attention shows one text, but standard input has {len(lines):,} lines")
    return "".join(lines)


def maps_of(task: Any, text: str, run: str) -> AttentionMaps:
    """The maps of a run; stderr says which layers have none.

    Raises:
        BadOption: no layer has one.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the notes, printed below, say the same
        try:
            maps: AttentionMaps = task.attention(text)
        except BadOption as error:
            raise BadOption(f"{run}: {error}") from None
    maps.run = run
    for note in maps.notes:
        notify(f"{run}: {note}")
    return maps
