"""What attentions train starts as their options say."""

import pytest
import torch
from torch.testing import assert_close

from tfzoo.base.registry import create

HEADS = 4


def test_a_trained_scale_starts_as_the_scaled_dot_product_and_multiplies_its_scores():
    q, k = torch.randn(2, 3, HEADS, 6, 8)
    plain = create("attention", "scaled_dot_product").scores(q, k)
    attention = create("attention", "trained_scale", heads=HEADS)
    assert_close(attention.scores(q, k), plain)
    with torch.no_grad():
        attention.scale.copy_(torch.arange(HEADS)[:, None, None])
    assert_close(attention.scores(q, k), plain * torch.arange(HEADS)[:, None, None])


def test_additive_attention_starts_as_its_options_say():
    one = create("attention", "additive", heads=8, head_dim=64)
    assert not one.score.any()
    assert one.key.std().item() == pytest.approx(0.001, rel=0.1)
    other = create(
        "attention", {"name": "additive", "std": 0.125, "score_std": 2.0}, heads=8, head_dim=64
    )
    assert other.score.std().item() == pytest.approx(2.0, rel=0.2)
    assert other.query.std().item() == pytest.approx(0.125, rel=0.1)
