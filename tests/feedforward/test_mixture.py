"""A mixture of experts gives each token to its best experts, whatever the other tokens are."""

import pytest
import torch
from torch.nn.functional import silu
from torch.testing import assert_close

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
