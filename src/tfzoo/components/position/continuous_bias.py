"""A bias that a small network computes from the distance."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from tfzoo.base.functional import compute_dtype, without_autocast
from tfzoo.base.linear import CastLinear
from tfzoo.base.registry import register
from tfzoo.base.values import check_range
from tfzoo.components.position._distances import distances
from tfzoo.contracts import Position


@register(
    "position",
    "continuous_bias",
    paper="arXiv:2111.09883, section 3.3",
    traits={"bias_of_distance"},
)
class ContinuousBias(Position):
    """Add a network of one hidden layer over the signed logarithm of distance to the scores:
    ``scores + W max(0, u s + b)``, ``s = sign(d) log(1 + |d|) / log(1 + m)``, ``d = k_pos -
    q_pos``.

    Overrides ``bias``: ``(b|1 q), (b|1 k) -> (b|1 h q k)``; ``u`` and ``b`` are ``(f)``, ``W`` is
    ``(h f)``, started as ``nn.Linear`` starts them.

    Liu et al. 2022 (Swin v2), for text. The sign tells an encoder what comes before and what after.
    The network is computed once for each distance up to ``m``, whatever the length of the text;
    longer distances have the bias of ``m``.

    Options:
        hidden: width ``f`` of the hidden layer; 512 in the paper.
        max_distance: ``m``.

    Raises:
        BadOption: ``hidden`` or ``max_distance`` under 1.

    >>> import tfzoo, torch
    >>> position = tfzoo.create("position", "continuous_bias", heads=2, causal=False)
    >>> position.bias(torch.arange(3)[None], torch.arange(5)[None]).shape
    torch.Size([1, 2, 3, 5])
    """

    def __init__(
        self, heads: int, causal: bool, *, hidden: int = 64, max_distance: int = 512
    ) -> None:
        super().__init__()
        check_range("position 'continuous_bias': hidden", hidden, ge=1, whole=True)
        check_range("position 'continuous_bias': max_distance", max_distance, ge=1, whole=True)
        self.max_distance = max_distance
        self.furthest_ahead = 0 if causal else max_distance
        self.inner = CastLinear(1, hidden)
        # No bias: the softmax cancels what is added to all scores of a query.
        self.outer = CastLinear(hidden, heads, bias=False)

    def table(self) -> Tensor:
        """The bias of each distance from ``-max_distance`` on, ``(distances h)``."""
        dtype, device = compute_dtype(self.inner.weight), self.inner.weight.device
        distance = torch.arange(
            -self.max_distance, self.furthest_ahead + 1, dtype=dtype, device=device
        )
        distance = distance.sign() * distance.abs().log1p() / math.log1p(self.max_distance)
        with without_autocast(distance):
            found: Tensor = self.outer(F.relu(self.inner(distance[:, None])))
            return found

    def bias(self, q_pos: Tensor, k_pos: Tensor) -> Tensor:
        distance = distances(q_pos, k_pos)
        row = distance.clamp(-self.max_distance, self.furthest_ahead) + self.max_distance
        return F.embedding(row, self.table()).permute(0, 3, 1, 2)
