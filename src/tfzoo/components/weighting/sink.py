"""Softmax with a trained place for weight that no key takes."""

import torch
from torch import Tensor, nn

from tfzoo.base.registry import register
from tfzoo.components.weighting._visible import softmax_with_sink
from tfzoo.contracts import Weighting
from tfzoo.masks import Mask


@register("weighting", "sink", paper="arXiv:2508.10925, section 2")
class Sink(Weighting):
    """Softmax with a trained term in the denominator: ``exp(s_j) / (exp(sink) + sum_k exp(s_k))``,
    one ``sink`` per head.

    Shapes: ``(b h q k) -> (b h q k)``; ``sink`` is ``(h 1 1)``. Options: none.

    OpenAI 2025 (gpt-oss): the sink takes weight and gives no value, so that a head may attend to
    nothing. It starts at 0, which is ``softmax_plus_one``.

    >>> import tfzoo, torch
    >>> weights = tfzoo.create("weighting", "sink", heads=1)(torch.zeros(1, 1, 1, 3), tfzoo.Mask())
    >>> weights.detach()
    tensor([[[[0.2500, 0.2500, 0.2500]]]])
    """

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.sink = nn.Parameter(torch.empty(heads, 1, 1))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.zeros_(self.sink)

    def forward(self, scores: Tensor, mask: Mask) -> Tensor:
        return softmax_with_sink(scores, mask, self.sink)
