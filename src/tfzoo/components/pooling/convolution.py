"""The largest response of each convolution filter."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tfzoo.base.linear import CastLinear
from tfzoo.base.registry import register
from tfzoo.base.values import check_range
from tfzoo.contracts import Pooling
from tfzoo.errors import BadOption

LONGEST = 100
"""Limit of ``longest``, so that no recipe can ask for filters of a million widths."""


@register(
    "pooling",
    "convolution",
    paper="arXiv:1408.5882, section 2; projection: arXiv:1802.05365, section 3.4",
)
class Convolution(Pooling):
    """The largest response of each convolution filter over the sequence, projected:
    ``max(0, max_i <f, x[i : i + w]>) P``.

    Shapes: ``(b n d), (b n) -> (b d)``; for each width ``w`` from ``shortest`` to ``longest`` there
    are ``filters`` of ``(d w)``.

    Kim 2014, eq. 2 and 3, with a rectifier; Peters et al. 2018 project the responses to the width
    of the model. Both ends of a sequence are padded by zeros, so one shorter than ``w`` has a
    response too. There are no biases, so the response to padding is 0, the smallest there is, and
    a sequence of no token gives zeros. All weights start uniform by Glorot's rule. On an NVIDIA GPU
    PyTorch rounds the inputs of a convolution to TF32 unless ``torch.backends.cudnn.allow_tf32`` is
    False.

    Options:
        shortest: width of the narrowest filters, in tokens.
        longest: width of the widest.
        filters: number of filters of each width.

    Raises:
        BadOption: ``shortest`` or ``filters`` under 1, ``longest`` under ``shortest`` or over 100.

    >>> import tfzoo, torch
    >>> tfzoo.create("pooling", "convolution", dim=8)(torch.randn(3, 7, 8)).shape
    torch.Size([3, 8])
    """

    def __init__(
        self, dim: int, *, shortest: int = 3, longest: int = 5, filters: int = 100
    ) -> None:
        super().__init__()
        check_range("pooling 'convolution': shortest", shortest, ge=1, whole=True)
        check_range("pooling 'convolution': filters", filters, ge=1, whole=True)
        if not shortest <= longest <= LONGEST:
            raise BadOption(
                f"pooling 'convolution': longest={longest} must be from shortest={shortest} "
                f"to {LONGEST}"
            )
        widths = range(shortest, longest + 1)
        self.filters = nn.ParameterList(torch.empty(filters, dim, width) for width in widths)
        self.projection = CastLinear(filters * len(widths), dim, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for weight in (*self.filters, self.projection.weight):
            nn.init.xavier_uniform_(weight)

    def forward(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        if valid is not None:
            x = x.masked_fill(~valid[..., None], 0.0)
        channels = x.mT.contiguous()
        matches = [
            F.conv1d(channels, weight.to(x.dtype), padding=weight.shape[-1] - 1).amax(-1)
            for weight in self.filters
        ]
        found: Tensor = self.projection(F.relu(torch.cat(matches, -1)))
        return found.to(x.dtype)
