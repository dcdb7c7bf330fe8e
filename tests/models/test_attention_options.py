"""Options of the attention block, each against its formula."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import tfzoo
from tests.exact import close
from tfzoo.base.registry import registry
from tfzoo.components.mixer.multihead import SelfAttention
from tfzoo.masks import Mask
from tfzoo.models.context import Context
from tfzoo.models.multihead import CrossAttention
from tfzoo.models.options import StackOptions
from tfzoo.testing.samples import randomize

DIM, N = 16, 5
POS = torch.arange(N)[None]
CAUSAL = Mask(causal=True)
EACH: list[dict[str, Any]] = [
    {"bias": False},
    {"cap": 1.5},
    {"query_key_norm": {"norm": "rms"}},
    {"query_key_norm": {"norm": "rms", "over": "all"}},
    {"gate": True},
    {"head_scale": True},
    {"projections": "none"},
    {"share_query_key": True},
    {"kv_heads": 2, "head_dim": 3, "value_head_dim": 6},
]
TOGETHER: dict[str, Any] = {
    **{"bias": False, "cap": 1.5, "gate": True, "head_scale": True, "temperature": 0.7},
    "query_key_norm": {"norm": "rms", "over": "all"},
}
COMBINED = [{**TOGETHER, **one} for one in EACH]


def plain(block, x, y, visible, options):
    """Multi-head attention with these options in plain PyTorch: queries of ``x``, keys of ``y``."""

    def project(part, tokens):
        if options.projections == "none":
            return tokens
        return F.linear(tokens, part.weight, part.bias)

    def norm(part, tokens, heads):
        if part is None:
            return tokens
        over_all = (options.query_key_norm or {}).get("over") == "all"
        parts = tokens.unflatten(-1, (1 if over_all else heads, -1))
        return (parts / (parts.square().mean(-1, True) + 1e-6).sqrt() * part.norm.weight).flatten(2)

    def split(tokens, heads):
        parts = tokens.unflatten(-1, (heads, -1)).transpose(1, 2)
        return parts.repeat_interleave(options.heads // heads, 1)

    kv_heads = options.kv_heads or options.heads
    q = norm(block.query_norm, project(block.query, x), options.heads)
    k = norm(block.key_norm, project(block.key or block.query, y), kv_heads)
    q, k, v = split(q, options.heads), split(k, kv_heads), split(project(block.value, y), kv_heads)
    scores = block.attention.scores(q, k) / options.temperature
    if options.cap is not None:
        scores = options.cap * torch.tanh(scores / options.cap)
    weights = scores.masked_fill(~visible, float("-inf")).softmax(-1)
    heads = block.attention.combine(weights, v)
    if options.head_scale:
        heads = heads * block.head_scale[None, :, None, None]
    joined = heads.transpose(1, 2).flatten(2)
    if options.gate:
        joined = joined * torch.sigmoid(F.linear(x, block.gate.weight, block.gate.bias))
    return F.linear(joined, block.output.weight, block.output.bias)


@pytest.mark.parametrize("given", [*EACH, *COMBINED], ids=str)
def test_the_block_is_its_formula_with_every_attention(given):
    """Self-attention under a causal mask, and cross-attention."""
    torch.manual_seed(0)
    x, memory = torch.randn(2, N, DIM).double(), torch.randn(2, 3, DIM).double()
    for name in registry("attention").names():
        options = StackOptions(heads=4, attention=name, **given)
        own = randomize(SelfAttention(DIM, options)).double()
        triangle = torch.ones(N, N).tril().bool()
        wanted = plain(own, x, x, triangle, options)
        close(own(x, Context(CAUSAL, POS, POS), 0), wanted)
        cross = randomize(CrossAttention(DIM, options)).double()
        wanted = plain(cross, x, memory, torch.ones(N, 3).bool(), options)
        close(cross(x, Context(CAUSAL, POS, POS, memory=memory), 0), wanted)


def test_without_bias_no_linear_layer_of_attention_has_one():
    model = tfzoo.Transformer(12, 8, 2, 1, bias=False, gate=True)
    linear = {name for name, part in model.named_modules() if isinstance(part, nn.Linear)}
    biased = {name for name in linear if model.get_submodule(name).bias is not None}
    assert len(linear) == 19
    assert biased == {name for name in linear if ".feedforward." in name}


@pytest.mark.parametrize("name", ["query", "key", "value"])
def test_a_hook_on_a_projection_is_called(name):
    """Queries, keys and values may come from one product."""
    block, seen = tfzoo.create("mixer", "multihead", dim=DIM, heads=4), []
    getattr(block, name).register_forward_hook(lambda part, given, y: seen.append(y.shape))
    block(torch.randn(2, N, DIM))
    assert seen == [(2, N, DIM)]
