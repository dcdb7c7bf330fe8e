"""No positions."""

from __future__ import annotations

from tfzoo.contracts import Position
from tfzoo.registry import register


@register("position", "none")
class NoPosition(Position):
    """Leave order out: ``x``; an encoder then treats a text as a bag of tokens.

    Overrides no hook. A causal decoder still learns something of order from how many tokens it may
    see.

    >>> import torch
    >>> from tfzoo.registry import create
    >>> x, pos = torch.ones(1, 2, 1), torch.arange(2)[None]
    >>> create("position", "none").embed(x, pos) is x
    True
    """
