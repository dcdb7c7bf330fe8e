"""tfzoo test RUN: score a trained run on its test sets."""

from __future__ import annotations

from tfzoo.training.evaluation import score

TEXT = """\
Score a run's best checkpoint (or the checkpoint given) on each test set of its recipe;
a classifier's confusion matrix is drawn into the run's folder.

  --data.X, --search.X, --trainer.X   differ from the recipe, such as --search.beam 5 of a translator"""


def run(args: list[str]) -> int:
    """Score on each test set."""
    return score("test", args, TEXT)
