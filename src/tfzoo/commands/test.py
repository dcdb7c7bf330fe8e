"""tfzoo test RUN: score a trained run on its test sets."""

from __future__ import annotations

from tfzoo.training.evaluation import evaluate

TEXT = """\
Score a run's best checkpoint (or the checkpoint given) on each test set of its recipe,
with intervals of 95 % over its texts. The task's pictures, such as what is confused
with what, are saved in the run's folder.

  --device D                          cpu, cuda, cuda:N or mps; default: that of the training
  --data.X, --search.X, --trainer.X   override the recipe, such as --search.beam 5"""


def run(args: list[str]) -> int:
    """Score on each test set."""
    return evaluate("test", args, TEXT)
