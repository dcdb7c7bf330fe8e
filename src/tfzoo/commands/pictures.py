"""tfzoo attention and tfzoo plot: pictures of trained runs, and of positional encodings."""

from __future__ import annotations

import warnings
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfzoo.base import files
from tfzoo.base.terminal import notify, print_result, relative_path
from tfzoo.commands.argument_parser import CommandParser
from tfzoo.commands.predict import load_task
from tfzoo.errors import BadData, BadOption, TfzooError
from tfzoo.learning.trained_run import TrainedRun
from tfzoo.plots.style import save

if TYPE_CHECKING:
    from tfzoo.plots.attention import AttentionMaps

FILE = "attention.html"
PAGE = ".html"
ATTENTION_HELP = """\
The page shows each layer and head, of the encoder, of the decoder and between them, as lines and as
a heat map; hover over a token to see its weights. It is one file, which needs no network. A
translator's decoder is shown in its own translation of the text. Layers are counted from 0.

tfzoo attention runs/numbers/1 "two plus two"                        writes attention.html
tfzoo attention runs/numbers/1 "two plus two" --compare runs/gru/1   two runs side by side
"""


def run_attention(given: Namespace) -> int:
    """Write the page of one text."""
    if Path(given.output).suffix.lower() != PAGE:
        raise TfzooError(f"--output {given.output}: a page is written, whose name ends in {PAGE}")
    names = [given.run, *([given.compare] if given.compare else [])]
    first, *others = [TrainedRun(name) for name in names]
    if not (text := given.text.strip()):
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

    with files.output(Path(given.output)) as place:
        place.write_text(attention_page(*runs), "utf-8")
    print_result(given.output)
    return 0


def attention_parser() -> CommandParser:
    """The arguments of the command."""
    parser = CommandParser(
        "attention",
        run_attention,
        "Show the attention of a trained run in one text.",
        ATTENTION_HELP,
    )
    parser.add_run()
    parser.add_argument("text", metavar="TEXT", help="one text")
    parser.add_argument(
        "--compare", metavar="RUN2", help="show this run, of the same task, beside the first"
    )
    parser.add_argument(
        "--output",
        metavar="FILE",
        default=FILE,
        help="the page to write (default: %(default)s)",
    )
    parser.add_argument(
        "--layers", type=numbers, metavar="N,N", help="these layers alone, such as 0,5"
    )
    parser.add_device()
    return parser


def numbers(text: str) -> set[int]:
    """Whole numbers between commas."""
    return {int(one) for one in text.split(",")}


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


PLOT_HELP = """\
  tfzoo plot RUN...                       learning curves of runs, by their folders, in one picture
  tfzoo plot position NAME                an encoding as a heat map, and against distance

Options of a component are written as in recipes: --position.base 500000.
A run in a folder that is called position is written with its path: ./position

  tfzoo plot runs/numbers/1 runs/numbers/2 --output numbers.svg
  tfzoo plot position rotary --position.base 500000 --length 1024
"""
SIZES = {
    "dim": "width of the model and of a head (default: 64)",
    "heads": "number of heads (default: 8)",
    "length": "number of positions (default: 128)",
}


def plot_parser() -> CommandParser:
    """The arguments of the command."""
    parser = CommandParser("plot", plot, "Draw a picture.", PLOT_HELP)
    parser.add_argument("what", metavar="WHAT", nargs="+", help="runs, or position")
    parser.add_argument(
        "--output",
        metavar="FILE",
        help="the picture to write: .png, .svg or .pdf (default: curves.png in the folder of the "
        "run, for several runs in the working folder; else position_NAME.png)",
    )
    parser.add_argument(
        "--metric",
        metavar="NAME",
        action="append",
        help="draw this column of metrics.csv, and no others; may be given several times",
    )
    for name, text in SIZES.items():
        parser.add_argument(f"--{name}", type=int, metavar="N", help=text)
    parser.add_argument(
        "--causal", action="store_true", default=None, help="position: in a decoder"
    )
    parser.others = ("--position.",)
    return parser


def plot(given: Namespace) -> int:
    """Draw a picture, write it and print its path."""
    first = given.what[0]
    draw, foreign = draw_runs, (*SIZES, "causal")
    if first == "position":
        draw, foreign = draw_position, ("metric",)
    for name in foreign:
        if getattr(given, name) is not None:
            raise TfzooError(f"--{name} is nothing of tfzoo plot {first} (tfzoo plot --help)")
    figure, path = draw(given)
    path = path if given.output is None else Path(given.output)
    save(figure, path)
    print_result(relative_path(path))
    return 0


def draw_position(given: Namespace) -> tuple[Any, Path]:
    """The picture of a positional encoding, and the file it is written to by default."""
    from tfzoo.plots.position import position_figure

    _, *names = given.what
    if len(names) != 1:
        raise TfzooError("plot position needs one name (tfzoo list position)")
    options = {}
    for option in given.overrides:
        if option.text is None:
            raise TfzooError(f"--{option.key} needs a value")
        options[option.key.removeprefix("position.")] = option.value
    sizes = {name: value for name in SIZES if (value := getattr(given, name)) is not None}
    figure = position_figure({"name": names[0], **options}, **sizes, causal=bool(given.causal))
    return figure, Path(f"position_{names[0]}.png")


def draw_runs(given: Namespace) -> tuple[Any, Path]:
    """The learning curves of runs, and the file they are written to by default."""
    from tfzoo.plots import curves

    for option in given.overrides:
        raise TfzooError(f"--{option.key} belongs to tfzoo plot position NAME")
    for word in given.what:
        if (Path(word) / "sweep.yaml").is_file():
            raise TfzooError(f"{word} is the folder of a sweep, drawn by tfzoo report {word}")
    runs = curves.read_runs([Path(word) for word in given.what])
    figure = curves.curves_figure(runs, given.metric or ())
    return figure, (Path(given.what[0] if len(runs) == 1 else "") / curves.FILE)
