"""A trained bias per distance (T5)."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tfzoo.base.functional import at_least_fp32
from tfzoo.base.registry import register
from tfzoo.components.position._distances import distances
from tfzoo.contracts import Position
from tfzoo.errors import BadOption


@register(
    "position", "relative_bias", paper="arXiv:1910.10683, section 2.1", traits={"bias_of_distance"}
)
class RelativeBias(Position):
    """Add a trained number for each bucket of distances to the scores: ``scores +
    table[bucket(k_pos - q_pos)]``, one per head.

    Overrides ``bias``: ``(b|1 q), (b|1 k) -> (b|1 h q k)``; ``table`` is ``(buckets h)`` and starts
    from N(0, 1/d), as in T5's code.

    Raffel et al. 2020, section 2.1. Half of the buckets hold one distance each, the others widen
    geometrically up to ``max_distance``; all larger distances share the last one. In an encoder
    each direction has half of the buckets; in a causal stack the past has all of them.

    Options:
        buckets: number of buckets.
        max_distance: distances from here on share one bucket.

    Raises:
        BadOption: too few buckets, or ``max_distance`` is not over the largest distance that has a
            bucket of its own.

    >>> import tfzoo, torch
    >>> position = tfzoo.create("position", "relative_bias", dim=8, heads=2, causal=False)
    >>> position.bias(torch.arange(3)[None], torch.arange(5)[None]).shape
    torch.Size([1, 2, 3, 5])
    """

    def __init__(
        self, dim: int, heads: int, causal: bool, *, buckets: int = 32, max_distance: int = 128
    ) -> None:
        super().__init__()
        self.side = buckets if causal else buckets // 2
        if self.side < 2 or (buckets % 2 and not causal):
            needed = "2 or more" if causal else "even, 4 or more"
            raise BadOption(f"position 'relative_bias': buckets must be {needed}, not {buckets}")
        if max_distance <= self.side // 2:
            raise BadOption(
                f"position 'relative_bias': max_distance must be over {self.side // 2} "
                f"with {buckets} buckets, not {max_distance}"
            )
        self.dim, self.causal, self.max_distance = dim, causal, max_distance
        self.table = nn.Parameter(torch.empty(buckets, heads))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.table, std=self.dim**-0.5)

    def buckets(self, distance: Tensor) -> Tensor:
        """The bucket of each ``k_pos - q_pos``."""
        near = self.side // 2
        far = distance.clamp(max=0).neg() if self.causal else distance.abs()
        # In fp32 as in T5, so that a distance at the edge of a bucket falls into the same one.
        growth = torch.log(far.clamp(min=1).float() / near) / math.log(self.max_distance / near)
        grown = near + (growth * (self.side - near)).long()
        bucket = torch.where(far < near, far, grown.clamp(max=self.side - 1))
        return bucket if self.causal else bucket + (distance > 0) * self.side

    def bias(self, q_pos: Tensor, k_pos: Tensor) -> Tensor:
        bucket = self.buckets(distances(q_pos, k_pos))
        return F.embedding(bucket, at_least_fp32(self.table)).permute(0, 3, 1, 2)
