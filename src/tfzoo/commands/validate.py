"""tfzoo validate RUN: score a trained run on its validation text."""

from __future__ import annotations

from tfzoo.training.evaluation import evaluate

TEXT = """\
Score a run's best checkpoint (or the checkpoint given) on the validation text of its recipe.

  --device D                          cpu, cuda, cuda:N or mps; default: that of the training
  --data.X, --search.X, --trainer.X   override the recipe, such as --search.beam 5"""


def run(args: list[str]) -> int:
    """Score on the validation text."""
    return evaluate("validate", args, TEXT)
