"""The last token of a sequence."""

import torch
from torch import Tensor

from tfzoo.base.registry import register
from tfzoo.components.pooling.first import First


@register("pooling", "last", paper="arXiv:1910.13461, section 3.1")
class Last(First):
    """The last real token: ``x_n``; in a causal model, the one that sees all others (GPT, BART).

    Shapes: ``(b n d), (b n) -> (b d)``; padding may stand on either side. A sequence of no token
    gives zeros. Options: none.

    >>> import tfzoo, torch
    >>> x, valid = torch.tensor([[[1.0], [3.0], [99.0]]]), torch.tensor([[True, True, False]])
    >>> tfzoo.create("pooling", "last")(x, valid)
    tensor([[3.]])
    """

    def token_index(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        last = x.shape[1] - 1
        if valid is None:
            return torch.full((len(x),), last, device=x.device)
        return last - valid.flip(1).to(torch.uint8).argmax(1)  # of the last True
