"""Multi-head attention is its attention, between projections, whatever the attention is."""

from __future__ import annotations

import torch

from tfzoo.base.registry import registry
from tfzoo.masks import Mask
from tfzoo.mixer.multihead import SelfAttention
from tfzoo.models.context import Context
from tfzoo.models.options import StackOptions

POS = torch.arange(1)[None]  # read by positional encodings alone


def test_a_block_calls_its_attention_on_projections_of_the_tokens() -> None:
    """Keys are prepared once, also where an attention makes other keys of them."""
    torch.manual_seed(0)
    x = torch.randn(2, 5, 6, dtype=torch.float64)
    mask = Mask(causal=True)
    for name in registry("attention").names():
        block = SelfAttention(6, StackOptions(heads=2, attention=name)).double()
        for parameter in block.parameters():
            torch.nn.init.normal_(parameter)
        q, k, v = (
            part(x).unflatten(-1, (2, 3)).transpose(1, 2)
            for part in (block.query, block.key, block.value)
            if part
        )
        heads = block.attention(q, k, v, mask=mask)
        wanted = block.output(heads.transpose(1, 2).flatten(2))
        torch.testing.assert_close(
            block(x, Context(mask, POS, POS), 0), wanted, rtol=1e-9, atol=1e-9
        )
