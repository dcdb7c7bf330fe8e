"""Which keys have a weight, and how many they are."""

from math import inf

import torch
from torch import Tensor

from tfzoo.masks import Mask, largest, softmax

FAR = -4.0
"""Sparsemax and 1.5-entmax give no weight to a key whose score is 1, or 2, below the largest."""


def visible_keys(scores: Tensor, mask: Mask) -> Tensor:
    """True at the keys that a query may look at, and whose score is not -inf: ``(b h q k)``."""
    q, k = scores.shape[-2:]
    visible = mask.boolean(q, k, scores.device)
    finite = scores.detach() != -inf
    return finite if visible is None else finite & visible


def count(visible: Tensor) -> Tensor:
    """The number of keys that each query may look at, at least 1: ``(b h q k) -> (b h q 1)``."""
    return visible.sum(-1, keepdim=True).clamp(min=1)


def below_largest(scores: Tensor, visible: Tensor) -> Tensor:
    """Scores minus the largest visible score of their query, :data:`FAR` or more; :data:`FAR` at
    hidden keys: ``(b h q k)``.
    """
    scores = scores.masked_fill(~visible, -inf)
    top = largest(scores)
    return (scores - top.masked_fill(top == -inf, 0.0)).clamp(min=FAR)


def ranks(scores: Tensor) -> Tensor:
    """The numbers 1 to k, in the dtype of the scores: ``(k)``."""
    return torch.arange(1, scores.shape[-1] + 1, device=scores.device).to(scores.dtype)


def softmax_with_sink(scores: Tensor, mask: Mask, sink: Tensor) -> Tensor:
    """``exp(s_j) / (exp(sink) + sum_k exp(s_k))`` over the visible keys: one more column in the
    softmax, which is dropped. ``(b h q k), (h|1 1 1) -> (b h q k)``.
    """
    scores = scores.masked_fill(~visible_keys(scores, mask), -inf)
    column = sink.to(scores.dtype).expand(*scores.shape[:-1], 1)
    return softmax(torch.cat([scores, column], -1))[..., :-1]
