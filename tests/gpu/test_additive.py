"""Additive attention is its formula on a GPU, and its hidden layer is never in memory."""

import pytest
import torch

from tests.attention.test_additive import B, C, H, K, Q, agrees, drawn, exact
from tfzoo.base.registry import create
from tfzoo.components.attention import _tanh_scores
from tfzoo.components.attention._tanh_scores import tanh_scores
from tfzoo.masks import Mask

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]


def test_forward_and_backward_are_the_formula_s(monkeypatch):
    """In several blocks, of which the last is smaller."""
    monkeypatch.setattr(_tanh_scores, "SMALL", 0)
    monkeypatch.setattr(_tanh_scores, "LARGE_BLOCK", 5000)
    wide = [x.requires_grad_() for x in drawn(Q, K, C)]
    given = [x.detach().float().cuda().requires_grad_() for x in wide]
    found = tanh_scores(*given)
    assert found.shape == (B, H, Q, K)
    agrees(found, exact(*wide), given, wide, 1e-5)


def test_memory_does_not_grow_with_the_hidden_layer():
    """At 4,096 tokens, it would take 16 GiB."""
    n, hidden = 4096, 256
    attention = create("attention", {"name": "additive", "hidden": hidden}, heads=1, head_dim=16)
    q, k, v = (torch.randn(1, 1, n, 16, device="cuda", requires_grad=True) for _ in range(3))
    torch.cuda.reset_peak_memory_stats()
    attention.cuda()(q, k, v, mask=Mask(causal=True)).sum().backward()
    assert torch.cuda.max_memory_allocated() < n * n * hidden
