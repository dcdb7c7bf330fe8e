"""What scores are made of, in float64: means over batches and processes, ranks, correlations."""

from __future__ import annotations

import torch
from torch import Tensor
from torchmetrics import CatMetric, Metric


def exact(device: torch.device) -> torch.dtype:
    """float64, which MPS has not."""
    return torch.float32 if device.type == "mps" else torch.float64


class Mean(Metric):
    """A weighted mean over batches and processes; NaN if a value is. (``torchmetrics.MeanMetric``
    leaves NaN out, and adds in fp32, where the sum of many tokens stands still.)
    """

    full_state_update = False
    total: Tensor
    weight: Tensor

    def __init__(self) -> None:
        super().__init__()
        for name in ("total", "weight"):
            self.add_state(name, torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, total: Tensor | float, weight: Tensor | float = 1.0) -> None:
        """Add weighted values, or sums of them, and their weights: tensors of any shape."""
        self.total += torch.as_tensor(total).to(self.total.dtype).sum()
        self.weight += torch.as_tensor(weight).to(self.weight.dtype).sum()

    def compute(self) -> Tensor:
        """The sum of all values over the sum of all weights."""
        return self.total / self.weight


class Column(CatMetric):
    """The values of all batches and processes, in float64, NaN too."""

    def __init__(self) -> None:
        super().__init__(nan_strategy="disable")

    @property
    def dtype(self) -> torch.dtype:
        """That of the values; torchmetrics would have fp32 after a move to a device."""
        return exact(self.device)


def ranks(values: Tensor) -> Tensor:
    """The rank of each value, from 1; equal values share the mean of theirs. NaN throughout if a
    value is NaN: ``(n) -> (n)``, float64.
    """
    _, place, counts = values.unique(return_inverse=True, return_counts=True)
    last = counts.cumsum(0).double()
    found: Tensor = (last - (counts - 1) / 2)[place].where(~values.isnan().any(), torch.nan)
    return found


def correlation(x: Tensor, y: Tensor) -> Tensor:
    """Pearson's correlation ``sum dx dy / sqrt(sum dx^2 sum dy^2)``, ``dx = x - mean(x)``; NaN
    where ``x`` or ``y`` is constant, as it then is 0 / 0: ``(n), (n) -> ()``.
    """
    dx, dy = x - x.mean(), y - y.mean()
    constant = (x == x[0]).all() | (y == y[0]).all()  # their deviations may be rounding errors
    found: Tensor = (dx / dx.norm() * (dy / dy.norm())).sum().clamp(-1, 1)
    return found.where(~constant, torch.nan)


def roc_area(values: Tensor, positive: Tensor) -> Tensor:
    """The area under the ROC curve: the share of pairs of a positive and a negative one of which
    the positive one has the larger value, where equal values count half (Mann and Whitney 1947):
    ``(n), (n) -> ()``.
    """
    count = positive.sum().double()
    above = ranks(values)[positive.bool()].sum() - count * (count + 1) / 2
    area: Tensor = above / (count * (len(values) - count))
    return area
