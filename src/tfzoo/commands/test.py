"""tfzoo test RUN: score a trained run on its test sets."""

from __future__ import annotations

from argparse import Namespace

from tfzoo.commands.argument_parser import CommandParser
from tfzoo.training.evaluation import evaluate

TEXT = """\
Score a run's best checkpoint (or the checkpoint given) on each test set of its recipe, with
intervals of 95 % over its texts. The task's pictures, such as what is confused with what, are saved
in the run's folder."""
EPILOG = "--data.X, --search.X and --trainer.X override the recipe, such as --search.beam 5."


def make_parser() -> CommandParser:
    """The arguments of the command."""
    return scoring_parser("test", TEXT)


def scoring_parser(command: str, text: str) -> CommandParser:
    """The arguments of a command that scores a run with Lightning's Trainer."""
    parser = CommandParser(command, text, EPILOG)
    parser.add_run()
    parser.add_device(default="that of the training")
    parser.takes_recipe("data", "search", "trainer")
    return parser


def run(given: Namespace) -> int:
    """Score on each test set."""
    return evaluate(given)
