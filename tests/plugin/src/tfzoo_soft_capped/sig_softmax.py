"""A softmax of more than exponentials."""

import torch.nn.functional as F
from torch import Tensor

from tfzoo import register
from tfzoo.contracts import Weighting
from tfzoo.masks import Mask


@register("weighting", "sig_softmax", paper="arXiv:1805.10829")
class SigSoftmax(Weighting):
    """Exponentials times sigmoids: ``exp(s) sigmoid(s) / sum(exp(s) sigmoid(s))``."""

    def forward(self, scores: Tensor, mask: Mask) -> Tensor:
        """``(b h q k) -> (b h q k)``"""
        shown = scores.nan_to_num(neginf=float("-inf"))  # hidden scores may be NaN
        log_sigmoid = -F.softplus(-shown)  # also of -inf
        return mask.softmax(scores, bias=log_sigmoid)
