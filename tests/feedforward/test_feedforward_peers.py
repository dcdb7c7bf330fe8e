"""Feed-forward layers equal those of published models, with their weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from tfzoo.registry import create

pytest.importorskip("transformers", minversion="5")

from transformers import GemmaConfig, GPT2Config, LlamaConfig, T5Config
from transformers.models.gemma.modeling_gemma import GemmaMLP
from transformers.models.gpt2.modeling_gpt2 import GPT2MLP
from transformers.models.llama.modeling_llama import LlamaMLP
from transformers.models.t5.modeling_t5 import T5DenseActDense, T5DenseGatedActDense

T5 = partial(T5Config, d_model=8, d_ff=24, dropout_rate=0.0)
PEERS: dict[str, tuple[dict[str, object], Callable[[], nn.Module]]] = {
    "Llama": (
        {"name": "swiglu"},
        lambda: LlamaMLP(LlamaConfig(hidden_size=8, num_attention_heads=2, intermediate_size=24)),
    ),
    "Gemma": (
        {"name": "geglu", "approximate": "tanh"},
        lambda: GemmaMLP(GemmaConfig(hidden_size=8, intermediate_size=24)),
    ),
    "GPT-2": (
        {"name": "gelu", "approximate": "tanh"},
        lambda: GPT2MLP(24, GPT2Config(n_embd=8, resid_pdrop=0.0)),
    ),
    "T5": ({"name": "relu", "bias": False}, lambda: T5DenseActDense(T5(feed_forward_proj="relu"))),
    "T5 v1.1": (
        {"name": "geglu", "approximate": "tanh"},
        lambda: T5DenseGatedActDense(T5(feed_forward_proj="gated-gelu")),
    ),
}


@pytest.mark.parametrize("peer", PEERS)
def test_equals_the_layer_of_transformers(peer: str) -> None:
    """``hidden`` is what their configurations call the intermediate size."""
    spec, build = PEERS[peer]
    theirs, x = build().double().eval(), torch.randn(2, 3, 8, dtype=torch.float64)
    ours = create("feedforward", {**spec, "hidden": 24}, dim=8).double()
    weights = [nn.init.normal_(parameter) for parameter in theirs.parameters()]
    if peer == "GPT-2":  # its matrices are transposed
        weights = [one.T if one.dim() > 1 else one for one in weights]
    elif len(weights) == 3:
        weights = [torch.cat(weights[:2]), weights[2]]
    ours.load_state_dict(dict(zip(ours.state_dict(), weights, strict=True)))
    assert_close(ours(x), theirs(x), rtol=1e-9, atol=1e-9)
