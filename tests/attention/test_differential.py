"""Differential attention is that of DiffLlama in ``transformers``."""

import pytest
import torch
import transformers
from torch.testing import assert_close
from transformers.models.diffllama import modeling_diffllama

import tfzoo
from tfzoo.base.rotation import Rotation
from tfzoo.components.mixer.multihead import SelfAttention
from tfzoo.errors import BadOption
from tfzoo.masks import Mask
from tfzoo.models.context import Context
from tfzoo.models.options import StackOptions

DIM, HEADS, N, LAYER = 16, 4, 7, 3


def pair(kv_heads):
    """A block of tfzoo's and one of DiffLlama with its weights, in float64."""
    torch.manual_seed(0)
    config = transformers.DiffLlamaConfig(
        hidden_size=DIM, num_attention_heads=HEADS, num_key_value_heads=kv_heads, lambda_std_dev=0.5
    )
    config._attn_implementation = "eager"
    theirs = modeling_diffllama.DiffLlamaAttention(config, layer_idx=LAYER).double()
    options = StackOptions(heads=HEADS, kv_heads=kv_heads, attention="differential", bias=False)
    ours = SelfAttention(DIM, options, layer=LAYER, layers=5).double()
    state = {f"{a}.weight": getattr(theirs, f"{b}_proj").weight for a, b in zip(
        ("query", "key", "value", "output"), "qkvo", strict=True)}  # fmt: skip
    for part in "qk":
        both = [getattr(theirs, f"lambda_{part}{i}") for i in (1, 2)]
        state[f"attention.lambda_{part}"] = torch.stack(both)
    ours.load_state_dict(state)
    return ours, theirs


def additive(mask):
    visible = mask.boolean(N, N, torch.device("cpu"))
    assert visible is not None
    return torch.zeros(visible.shape, dtype=torch.float64).masked_fill(~visible, -1e300)


@pytest.mark.parametrize("kv_heads", [2, 4])
@pytest.mark.parametrize("mask", [Mask(causal=True), Mask(keys=torch.arange(N)[None] < 4)])
def test_outputs_and_gradients_are_those_of_diffllama(kv_heads, mask):
    """The softmax of DiffLlama's eager attention is in fp32."""
    ours, theirs = pair(kv_heads)
    x = torch.randn(1, N, DIM, dtype=torch.float64, requires_grad=True)
    pos = torch.arange(N)[None]
    angles = torch.randn(1, N, DIM // HEADS // 2, dtype=torch.float64)
    rotation = Rotation(angles.cos()[:, None], angles.sin()[:, None], halves=True)
    full = torch.cat([angles, angles], -1)
    found = ours(x, Context(mask, pos, pos, rotation=rotation), 0)
    expected, _ = theirs(x, (full.cos(), full.sin()), additive(mask))
    assert_close(found, expected, atol=1e-6, rtol=1e-6)
    upstream = torch.randn_like(found)
    (mine,) = torch.autograd.grad(found, x, upstream, retain_graph=True)
    (other,) = torch.autograd.grad(expected, x, upstream, retain_graph=True)
    assert_close(mine, other, atol=1e-5, rtol=1e-5)
    for part in "qk":
        mine = torch.autograd.grad(
            found, getattr(ours.attention, f"lambda_{part}"), upstream, retain_graph=True
        )[0]
        both = [getattr(theirs, f"lambda_{part}{i}") for i in (1, 2)]
        other = torch.stack(torch.autograd.grad(expected, both, upstream, retain_graph=True))
        assert_close(mine, other, atol=1e-5, rtol=1e-5)


def test_heads_that_are_no_pairs_are_refused_in_one_line():
    message = "two heads for each pair of maps: heads=3 must be even"
    with pytest.raises(BadOption, match=message):
        tfzoo.Encoder(6, 3, 1, attention="differential")
    with pytest.raises(BadOption, match=message):
        tfzoo.MultiheadAttention(6, 3, attention="differential")
