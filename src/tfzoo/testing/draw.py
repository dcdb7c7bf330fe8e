"""Models with random parameters in which everything has influence."""

from __future__ import annotations

import torch
from torch import nn

from tfzoo.testing.samples import randomize
from tfzoo.testing.subject import FULL, SOURCE, TEXT, Subject

MOST_DRAWS = 10


def draw(module: nn.Module) -> Subject:
    """A model whose every parameter is drawn at random, in evaluation mode; again, where some
    attention then gives no weight at all, as a weighting of positive scores does where all are
    negative: nothing that it reads would have influence.
    """
    for _ in range(MOST_DRAWS):
        randomize(module)
        subject = Subject(module.eval())  # type: ignore[arg-type]  # a stack or a model of tfzoo
        if every_attention_weighs(subject):
            break
    return subject


def every_attention_weighs(subject: Subject) -> bool:
    """Whether every attention gives some weight. A softmax always does, and is not in the model."""
    seen: list[bool] = []
    weightings = subject.parts("weighting")
    hooked = [
        part.register_forward_hook(lambda part, args, weights: seen.append(bool(weights.any())))
        for part in weightings
    ]
    if weightings:
        with torch.no_grad():
            subject(TEXT)
            subject(FULL[:1], "none", SOURCE[:1])
    for hook in hooked:
        hook.remove()
    return all(seen)
