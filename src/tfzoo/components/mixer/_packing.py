"""Real tokens of each row moved to its front, so that padding stands in the way of nothing."""

import torch
from torch import Tensor


class Packing:
    """A permutation of the tokens of each row: real tokens first, in their order, then padding.

    Args:
        non_padding: ``(b n)``, False at padding; None: there is none, and nothing moves.

    >>> packing = Packing(torch.tensor([[False, True, True]]))
    >>> x = torch.tensor([[[9.0], [1.0], [2.0]]])
    >>> packing.pack(x).flatten(), packing.reverse(packing.pack(x)).flatten()
    (tensor([1., 2., 9.]), tensor([2., 1., 9.]))
    """

    def __init__(self, non_padding: Tensor | None) -> None:
        self.non_padding = non_padding
        if non_padding is not None:
            self.length = non_padding.sum(1, keepdim=True)
            padding = self.length + (~non_padding).cumsum(1) - 1
            self.place = torch.where(non_padding, non_padding.cumsum(1) - 1, padding)
            self.order = self.place.argsort(1)

    def pack(self, x: Tensor) -> Tensor:
        """``(b n d) -> (b n d)``"""
        return x if self.non_padding is None else select(x, self.order)

    def unpack(self, x: Tensor) -> Tensor:
        """The inverse of :meth:`pack`: ``(b n d) -> (b n d)``."""
        return x if self.non_padding is None else select(x, self.place)

    def reverse(self, x: Tensor) -> Tensor:
        """Reverse the order of the real tokens of packed rows: ``(b n d) -> (b n d)``. It is its
        own inverse.
        """
        if self.non_padding is None:
            return x.flip(1)
        place = torch.arange(x.shape[1], device=x.device)[None]
        return select(x, torch.where(place < self.length, self.length - 1 - place, place))

    def last(self, x: Tensor, count: int) -> Tensor:
        """The last ``count`` vectors before padding, of packed rows that follow ``count`` earlier
        vectors: ``(b count+n d) -> (b count d)``.
        """
        if self.non_padding is None:
            return x[:, x.shape[1] - count :]
        return select(x, self.length + torch.arange(count, device=x.device))


def select(x: Tensor, index: Tensor) -> Tensor:
    """Select tokens of each row by index: ``(b n d), (b m) -> (b m d)``."""
    # Not take_along_dim, which torch.export exports for one batch size and length.
    return x.gather(1, index[..., None].expand(-1, -1, x.shape[-1]))
