"""Feed-forward layers equal those of published models, with their weights."""

import pytest
import torch
from einops import rearrange
from torch import nn
from torch.testing import assert_close
from transformers import GptOssConfig, MixtralConfig
from transformers.models.gpt_oss.modeling_gpt_oss import GptOssMLP
from transformers.models.mixtral.modeling_mixtral import (
    MixtralSparseMoeBlock,
    load_balancing_loss_func,
)

from tests.exact import close
from tfzoo.base.registry import create


@pytest.mark.filterwarnings("ignore:.*ExpertsInterface")
@pytest.mark.parametrize("top_k", [1, 2])
def test_a_mixture_and_its_balance_loss_equal_mixtrals(top_k):
    """Mixtral computes probabilities in fp32: to 1e-5 of the largest number."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "intermediate_size": 24, "num_attention_heads": 2}
    experts = {"num_local_experts": 4, "num_experts_per_tok": top_k}
    theirs = MixtralSparseMoeBlock(MixtralConfig(**sizes, **experts)).double()
    for parameter in theirs.parameters():
        nn.init.normal_(parameter)
    spec = {"name": "mixture", "experts": 4, "top_k": top_k, "hidden": 24, "balance": 1.0}
    ours = create("feedforward", spec, dim=8).double()
    renamed = {
        "gate.weight": "router.weight",
        "experts.gate_up_proj": "inner.weight",
        "experts.down_proj": "outer.weight",
    }
    ours.load_state_dict({renamed[name]: p for name, p in theirs.named_parameters()})
    x = torch.randn(3, 7, 8, dtype=torch.float64, requires_grad=True)
    real = torch.arange(7)[None] < torch.tensor([[7], [4], [1]])
    wanted = theirs(x)
    size = wanted.abs().max().item()
    assert_close(ours(x, 0.0, real)[real], wanted[real], rtol=0.0, atol=1e-5 * size)
    slope = torch.randn_like(x)
    found, peer = (torch.autograd.grad(out, x, slope)[0] for out in (ours(x), wanted))
    assert_close(found, peer, rtol=0.0, atol=1e-5 * peer.abs().max().item())
    logits = (theirs.gate.weight @ x.flatten(0, 1).mT).mT
    for valid in (None, real):
        ours(x, 0.0, valid)
        peer_loss = load_balancing_loss_func((logits,), 4, top_k, valid)
        assert_close(ours.auxiliary_loss, peer_loss, rtol=1e-6, atol=0.0, check_dtype=False)


@pytest.mark.filterwarnings("ignore:.*ExpertsInterface")
def test_clamped_experts_with_biases_equal_gpt_osss():
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "intermediate_size": 24, "num_attention_heads": 2}
    experts = {"num_local_experts": 4, "num_experts_per_tok": 2}
    theirs = GptOssMLP(GptOssConfig(**sizes, **experts)).double()
    for parameter in theirs.parameters():
        nn.init.normal_(parameter)
    spec = {"name": "mixture", "experts": 4, "hidden": 24, "bias": True, "activation": "clamped"}
    ours = create("feedforward", spec, dim=8).double()
    given = dict(theirs.named_parameters())
    inner = given["experts.gate_up_proj"], given["experts.gate_up_proj_bias"]
    ours.load_state_dict(
        {
            "router.weight": given["router.weight"],
            "router.bias": given["router.bias"],
            "inner.weight": rearrange(inner[0], "e i (f p) -> e (p f) i", p=2),
            "inner.bias": rearrange(inner[1], "e (f p) -> e (p f)", p=2),
            "outer.weight": given["experts.down_proj"].mT,
            "outer.bias": given["experts.down_proj_bias"],
        }
    )
    x = 5 * torch.randn(3, 7, 8, dtype=torch.float64, requires_grad=True)  # most are clamped
    wanted, found = theirs(x)[0], ours(x)
    close(found, wanted)
    slope = torch.randn_like(x)
    grads = [torch.autograd.grad(out, x, slope)[0] for out in (found, wanted)]
    close(*grads)
