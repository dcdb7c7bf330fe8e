"""No positions."""

from tfzoo.base.registry import register
from tfzoo.contracts import Position


@register("position", "none")
class NoPosition(Position):
    """No positions: ``x``; an encoder then sees a bag of tokens.

    Overrides no hook. A causal decoder still knows the order in part, because each token sees
    another number of tokens.

    >>> import tfzoo, torch
    >>> x, pos = torch.ones(1, 2, 1), torch.arange(2)[None]
    >>> tfzoo.create("position", "none").embed(x, pos) is x
    True
    """
