"""tfzoo validate RUN: score a trained run on its validation text."""

from __future__ import annotations

from argparse import Namespace

from tfzoo.commands.argument_parser import CommandParser
from tfzoo.commands.test import scoring_parser
from tfzoo.training.evaluation import evaluate

TEXT = """\
Score a run's best checkpoint (or the checkpoint given) on the validation text of its recipe."""


def make_parser() -> CommandParser:
    """The arguments of the command."""
    return scoring_parser("validate", TEXT)


def run(given: Namespace) -> int:
    """Score on the validation text."""
    return evaluate(given)
