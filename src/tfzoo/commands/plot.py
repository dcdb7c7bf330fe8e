"""tfzoo plot: pictures of runs and of positional encodings."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

from tfzoo.base.kinds import KINDS
from tfzoo.base.terminal import print_result, relative_path
from tfzoo.commands.argument_parser import CommandParser
from tfzoo.errors import TfzooError
from tfzoo.plots.style import check_suffix, save

EPILOG = """\
  tfzoo plot RUN...                       learning curves of runs, by their folders, in one picture
  tfzoo plot position NAME                an encoding as a heat map, and against distance

Options of a component are written as in recipes: --position.base 500000.
A run in a folder that is called position is written with its path: ./position

  tfzoo plot runs/numbers/1 runs/numbers/2 --output numbers.svg
  tfzoo plot position rotary --position.base 500000 --length 1024
"""
SIZES = {
    "dim": (64, "width of the model and of a head"),
    "heads": (8, "number of heads"),
    "length": (128, "number of positions"),
}


def make_parser() -> CommandParser:
    """The arguments of the command."""
    parser = CommandParser("plot", "Draw a picture.", EPILOG)
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
    for name, (size, text) in SIZES.items():
        parser.add_argument(f"--{name}", type=int, metavar="N", help=f"{text} (default: {size})")
    parser.add_argument(
        "--causal", action="store_true", default=None, help="position: in a decoder"
    )
    parser.others = ("--position.",)
    return parser


def run(given: Namespace) -> int:
    """Draw a picture, write it and print its path."""
    first = given.what[0]
    if first in KINDS and first != "position" and not Path(first).exists():
        raise TfzooError(f"{first} has no picture. Kinds with one: position")
    draw, foreign = draw_runs, (*SIZES, "causal")
    if first == "position":
        draw, foreign = draw_position, ("metric",)
    for name in foreign:
        if getattr(given, name) is not None:
            raise TfzooError(f"--{name} is nothing of tfzoo plot {first} (tfzoo plot --help)")
    if given.output is not None:
        check_suffix(given.output)
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
    sizes = {name: default for name, (default, _) in SIZES.items()}
    sizes |= {name: value for name in SIZES if (value := getattr(given, name)) is not None}
    figure = position_figure({"name": names[0], **options}, **sizes, causal=bool(given.causal))
    return figure, Path(f"position_{names[0]}.png")


def draw_runs(given: Namespace) -> tuple[Any, Path]:
    """The learning curves of runs, and the file they are written to by default."""
    from tfzoo.plots import curves

    for option in given.overrides:
        raise TfzooError(f"--{option.key} belongs to tfzoo plot position NAME")
    runs = curves.read_runs([Path(word) for word in given.what])
    figure = curves.curves_figure(runs, given.metric or ())
    return figure, (Path(given.what[0] if len(runs) == 1 else "") / curves.FILE)
