"""tfzoo validate RUN: score a trained run on its validation text."""

from __future__ import annotations

from argparse import Namespace

from tfzoo.commands.argument_parser import CommandParser
from tfzoo.training.evaluation import evaluate

TEXT = """\
Score a run's best checkpoint (or the checkpoint given) on the validation text of its recipe."""
EPILOG = "--data.X, --search.X and --trainer.X override the recipe, such as --search.beam 5."


def make_parser() -> CommandParser:
    """The arguments of the command."""
    parser = CommandParser("validate", TEXT, EPILOG)
    parser.add_run()
    parser.add_device(default="that of the training")
    parser.takes_recipe("data", "search", "trainer")
    return parser


def run(given: Namespace) -> int:
    """Score on the validation text."""
    return evaluate("validate", given)
