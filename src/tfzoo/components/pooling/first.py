"""The first token of a sequence."""

import torch
from torch import Tensor

from tfzoo.base.registry import register
from tfzoo.contracts import Pooling


@register("pooling", "first", paper="arXiv:1810.04805, section 3", traits={"reads_first"})
class First(Pooling):
    """The first real token: ``x_1``.

    Shapes: ``(b n d), (b n) -> (b d)``; padding may stand on either side. A sequence of no token
    gives zeros. Options: none.

    >>> import tfzoo, torch
    >>> x, valid = torch.tensor([[[99.0], [1.0], [3.0]]]), torch.tensor([[False, True, True]])
    >>> tfzoo.create("pooling", "first")(x, valid)
    tensor([[1.]])
    """

    def forward(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        place = self.token_index(x, valid)
        return x.gather(1, place[:, None, None].expand(-1, 1, x.shape[2]))[:, 0]

    def token_index(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        if valid is None:
            return torch.zeros(len(x), dtype=torch.long, device=x.device)
        return valid.to(torch.uint8).argmax(1)  # of the first True
