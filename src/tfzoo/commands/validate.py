"""tfzoo validate RUN: score a trained run on its validation text."""

from __future__ import annotations

from tfzoo.training.evaluation import score

TEXT = """\
Score a run's best checkpoint (or the checkpoint given) on the validation text of its recipe.

  --data.X, --search.X, --trainer.X   differ from the recipe, such as --search.beam 5 of a translator"""


def run(args: list[str]) -> int:
    """Score on the validation text."""
    return score("validate", args, TEXT)
