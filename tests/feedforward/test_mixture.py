"""A mixture of experts gives each token to its best experts, whatever the other tokens are."""

import pytest
import torch
from einops import rearrange
from torch import nn
from torch.nn.functional import silu
from torch.testing import assert_close
from transformers import GptOssConfig, MixtralConfig
from transformers.models.gpt_oss.modeling_gpt_oss import GptOssMLP
from transformers.models.mixtral.modeling_mixtral import (
    MixtralSparseMoeBlock,
    load_balancing_loss_func,
)

import tfzoo
from tests.exact import close
from tfzoo.base.registry import create
from tfzoo.errors import BadOption
from tfzoo.masks import Mask
from tfzoo.models.initialise import rescale
from tfzoo.models.transformer_layer import parts_with_losses, take_auxiliary_loss

SOURCE = torch.tensor([[5, 6, 7, 3, 8], [8, 9, 3, 0, 0]])
TARGET = torch.tensor([[2, 5, 6, 7], [2, 8, 0, 0]])


def mixture(**options):
    torch.manual_seed(0)
    return create("feedforward", {"name": "mixture", "hidden": 6, **options}, dim=8).double()


def tokens(*shape):
    return torch.randn(*shape, 8, dtype=torch.float64)


def model(dropout=0.0):
    torch.manual_seed(0)
    return tfzoo.Transformer(20, 8, 2, 2, feedforward="mixture", dropout=dropout).double()


@pytest.mark.parametrize("top_k", [1, 2, 4])
def test_a_token_gets_the_weighted_sum_of_its_experts(top_k):
    layer, x = mixture(experts=4, top_k=top_k), tokens(1, 9)
    for token, out in zip(x[0], layer(x)[0], strict=True):
        probs = (layer.router.weight @ token).softmax(0)
        chosen = probs.argsort(descending=True)[:top_k]
        wanted = torch.zeros(8, dtype=torch.float64)
        for expert in chosen.tolist():
            gate, value = (layer.inner.weight[expert] @ token).chunk(2)
            weight = probs[expert] / probs[chosen].sum()
            wanted += weight * (layer.outer.weight[expert] @ (silu(gate) * value))
        close(out, wanted)


def test_an_expert_takes_any_number_of_tokens():
    """All tokens are the same, so that two experts take all."""
    layer, x = mixture(), tokens(1, 1).expand(2, 50, 8)
    close(layer(x), layer(x[:1, :1]).expand_as(x))
    assert sorted(layer.expert_share.tolist()) == [0.0] * 6 + [0.5] * 2


def test_an_expert_without_tokens_has_a_gradient_of_zeros():
    layer = mixture()
    layer(tokens(1, 1)).sum().backward()
    idle = layer.expert_share == 0
    assert int(idle.sum()) == 6
    for parameter in (layer.inner.weight, layer.outer.weight):
        assert not parameter.grad[idle].any()
        assert parameter.grad[~idle].flatten(1).any(1).all()


def test_the_loss_is_smallest_where_all_experts_take_as_much():
    layer = mixture(experts=4, top_k=1, balance=0.5)
    with torch.no_grad():
        layer.router.weight.copy_(torch.eye(4, 8))
    even = 9 * torch.eye(4, 8, dtype=torch.float64)[None]
    layer(even)
    assert_close(layer.auxiliary_loss.item(), 0.5, rtol=1e-9, atol=0.0)
    layer(even[:, :1].expand(1, 4, 8))
    assert layer.auxiliary_loss.item() > 1.9
    assert mixture(balance=0.0)(even) is not None
    assert mixture(balance=0.0).auxiliary_loss is None


def test_more_experts_for_a_token_than_there_are_is_refused():
    with pytest.raises(BadOption, match="top_k=3 of experts=2"):
        mixture(experts=2, top_k=3)


def test_the_weights_of_experts_have_the_standard_deviation_that_a_model_is_given():
    layer = mixture()
    rescale(layer, 0.02)
    for weight in layer.parameters():
        assert_close(weight.square().mean().sqrt().item(), 0.02)


def test_padding_does_not_count_in_the_loss_of_a_model():
    one = model()
    losses, shares = [], []
    for more in (0, 3):
        pad = torch.zeros(2, more, dtype=torch.long)
        ids = [torch.cat([one, pad], 1) for one in (SOURCE, TARGET)]
        one(*ids, source_mask=Mask(keys=ids[0] != 0), target_mask=Mask(keys=ids[1] != 0))
        shares.append([part.expert_share for part in parts_with_losses(one).values()])
        losses.append(take_auxiliary_loss(one.modules()))
    close(losses[1], losses[0])
    close(shares[1], shares[0])
    one.eval()(SOURCE, TARGET)
    assert take_auxiliary_loss(one.modules()) is None


@pytest.mark.parametrize(
    "options",
    [
        {"feedforward": "mixture", "parallel": "two_norms"},
        {"feedforward": "relu", "pattern": [{}, {"feedforward": "mixture"}]},
    ],
)
def test_every_layer_tells_its_mixture_what_is_padding(options):
    torch.manual_seed(0)
    stack, x = tfzoo.Encoder(8, heads=2, layers=2, dropout=0.0, **options).double(), tokens(2, 5)
    losses = []
    for padded in (x[:, :3], x):
        keys = torch.arange(padded.shape[1]) < torch.tensor([[3], [2]])
        stack(padded, mask=tfzoo.Mask(keys=keys))
        losses.append(take_auxiliary_loss(stack.modules()))
    close(losses[1], losses[0])


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
