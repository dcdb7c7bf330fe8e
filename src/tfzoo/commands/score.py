"""tfzoo score RUN [DATA]: score a trained run on its test sets, or on its validation text."""

from __future__ import annotations

from argparse import Namespace

from tfzoo.base.terminal import FORMATS
from tfzoo.commands.argument_parser import CommandParser
from tfzoo.training.evaluation import SETS, evaluate

TEXT = """\
Score a run's best checkpoint (or the checkpoint given) on each test set of its recipe, with
intervals of 95 % over its texts. The task's pictures, such as what is confused with what, are saved
in the run's folder."""
EPILOG = """\
--data.X, --search.X and --trainer.X override the recipe, such as --search.beam 5 of a translator,
or --data.test FILE.
"""


def make_parser() -> CommandParser:
    """The arguments of the command."""
    parser = CommandParser("score", TEXT, EPILOG)
    parser.add_run()
    parser.add_argument(
        "data",
        metavar="DATA",
        nargs="?",
        default="test",
        help=f"{' or '.join(SETS)} (default: test)",
    )
    parser.add_argument(
        "--predictions",
        metavar="F",
        help=f"also write {' or '.join(FORMATS)}: text, prediction and reference of each test set, "
        "one row per item in its order, to predictions/<name>.<F> in the run's folder",
    )
    parser.add_device(default="that of the training")
    parser.takes_recipe("RUN")
    return parser


def run(given: Namespace) -> int:
    """Score, and write the predictions."""
    return evaluate(given)
