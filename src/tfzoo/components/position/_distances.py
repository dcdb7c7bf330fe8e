"""Distances between positions, for encodings that add a bias to the scores."""

from torch import Tensor


def distances(q_pos: Tensor, k_pos: Tensor) -> Tensor:
    """``k_pos - q_pos``: ``(b|1 q), (b|1 k) -> (b|1 q k)``; also ``(q), (k) -> (1 q k)``."""
    between = k_pos[..., None, :] - q_pos[..., :, None]
    return between[None] if between.ndim == 2 else between
