"""Additive attention computes its formula whatever the mask, and no score that a causal mask
hides.
"""

import pytest
import torch

from tests.attention.additive_cases import C, H, agrees, inputs, masks, reference
from tfzoo.attention import _tanh_scores
from tfzoo.base.registry import create


@pytest.mark.parametrize("name", masks())
@pytest.mark.parametrize("scale", [1.0, 300.0])  # the latter is too wide for exponentials
def test_any_mask(name, scale, monkeypatch):
    monkeypatch.setattr(_tanh_scores, "SMALL", 0)
    monkeypatch.setattr(_tanh_scores, "BLOCK", 5000)
    monkeypatch.setattr(_tanh_scores, "ROWS", 16)
    attention = create("attention", "additive", heads=H, head_dim=C).double()
    for parameter in attention.parameters():
        torch.nn.init.normal_(parameter)
    a, b, _, values = inputs(scale=scale)
    given = [a, b, values, *attention.parameters()]
    found = attention(a, b, values, mask=masks()[name])
    q, k = a @ attention.query, b @ attention.key
    agrees(found, reference(q, k, attention.score, values, masks()[name]), given, 1e-9)


def test_scores_behind_a_causal_mask_are_left_out(monkeypatch):
    monkeypatch.setattr(_tanh_scores, "SMALL", 0)
    monkeypatch.setattr(_tanh_scores, "ROWS", 1)
    a, b, v, _ = inputs()
    scores = _tanh_scores.tanh_scores(a, b, v, first=3)
    later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(4)
    assert not scores[..., later].any()
    assert scores[..., ~later].all()
