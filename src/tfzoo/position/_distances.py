"""Distances between positions, for encodings that add a bias to the scores."""

from torch import Tensor, atleast_2d


def distances(q_pos: Tensor, k_pos: Tensor) -> Tensor:
    """``k_pos - q_pos``: ``(b|1 q), (b|1 k) -> (b|1 q k)``; also ``(q), (k) -> (1 q k)``."""
    return atleast_2d(k_pos)[:, None, :] - atleast_2d(q_pos)[:, :, None]
