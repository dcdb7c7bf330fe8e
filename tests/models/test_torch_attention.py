"""``tfzoo.MultiheadAttention`` stands in for ``torch.nn.MultiheadAttention``."""

import math
import warnings
from itertools import product

import pytest
import torch
from torch import nn

import tfzoo
from tests.exact import close
from tfzoo.base.registry import registry
from tfzoo.errors import BadOption

B, Q, K, DIM, HEADS = 3, 4, 6, 8, 2
INF = float("inf")


pytestmark = pytest.mark.usefixtures("in_float64")


def both(**options):
    """Ours and theirs with the same weights, biases that are not 0 included."""
    ours = tfzoo.MultiheadAttention(DIM, HEADS, **options)
    theirs = nn.MultiheadAttention(DIM, HEADS, **options)
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.4)
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


def masks(batch, q, k):
    """Every kind of mask, alone and combined; each query may look at the first key."""
    b = batch or 1
    padding = torch.arange(k) >= torch.tensor([k, k - 2, 1])[:b, None]
    padding = padding if batch else torch.arange(k) >= k - 2
    one, each = torch.rand(q, k) < 0.4, torch.rand(b * HEADS, q, k) < 0.4
    one[:, 0], each[..., 0] = False, False
    numbers = [torch.randn_like(x, dtype=torch.float64) for x in (padding, one, each)]
    numbers = [x.masked_fill(y, -INF) for x, y in zip(numbers, (padding, one, each), strict=True)]
    for padded, hidden in product((None, padding, numbers[0]), (None, one, each, *numbers[1:])):
        named = {"key_padding_mask": padded, "attn_mask": hidden}
        yield {name: mask for name, mask in named.items() if mask is not None}


def compare(ours, theirs, given, **options):
    """Outputs, weights, and gradients of inputs and parameters."""
    inputs = list({id(x): x.requires_grad_() for x in given}.values())
    found, weights = ours(*given, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of boolean beside additive masks
        expected, others = theirs(*given, **options)
    close(found, expected)
    assert (weights is None) == (others is None)
    if weights is not None:
        close(weights, others)
    direction = torch.randn_like(found)
    names = [name for name, _ in theirs.named_parameters()]
    parameters = [dict(module.named_parameters()) for module in (ours, theirs)]
    one, other = (
        torch.autograd.grad((y * direction).sum(), [*inputs, *(p[name] for name in names)])
        for y, p in zip((found, expected), parameters, strict=True)
    )
    close(one, other)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("batch", [B, None])
def test_every_mask_gives_what_torch_gives(batch, batch_first, need_weights):
    ours, theirs = both(batch_first=batch_first)
    x, memory = torch.randn(B, Q, DIM), torch.randn(B, K, DIM)
    if batch is None:
        x, memory = x[0], memory[0]
    elif not batch_first:
        x, memory = x.transpose(0, 1), memory.transpose(0, 1)
    for given in ([x, x, x], [x, memory, memory.clone()]):
        for named in masks(batch, Q, Q if given[1] is x else K):
            for average in (True, False)[: 1 + need_weights]:
                options = {"need_weights": need_weights, "average_attn_weights": average}
                compare(ours, theirs, given, **options, **named)


@pytest.mark.parametrize(
    "options", [{"kdim": 5}, {"vdim": 3}, {"kdim": 5, "vdim": 3, "bias": False}, {"bias": False}]
)
def test_widths_and_biases_are_those_of_torch(options):
    ours, theirs = both(**options)
    k, v = torch.randn(K, B, options.get("kdim", DIM)), torch.randn(K, B, options.get("vdim", DIM))
    compare(ours, theirs, [torch.randn(Q, B, DIM), k, v])


def test_is_causal_needs_no_mask_beside_it():
    ours = tfzoo.MultiheadAttention(8, 2, batch_first=True).double()
    x, later = torch.randn(2, 5, 8, dtype=torch.float64), torch.ones(5, 5).triu(1).bool()
    padding = torch.arange(5) >= torch.tensor([[5], [3]])
    for hidden, weights in product((None, padding), (True, False)):
        given = {"key_padding_mask": hidden, "need_weights": weights}
        close(ours(x, x, x, is_causal=True, **given)[0], ours(x, x, x, attn_mask=later, **given)[0])


@pytest.mark.parametrize("options", [{}, {"kdim": 5, "vdim": 3}, {"bias": False}])
def test_the_same_seed_gives_the_same_weights_and_they_load_both_ways(options):
    torch.manual_seed(3)
    ours = tfzoo.MultiheadAttention(DIM, HEADS, **options)
    torch.manual_seed(3)
    theirs = nn.MultiheadAttention(DIM, HEADS, **options)
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    for name, weight in theirs.state_dict().items():
        assert torch.equal(ours.state_dict()[name], weight)
    ours.load_state_dict(theirs.state_dict())
    theirs.load_state_dict(ours.state_dict())


def test_a_query_that_may_look_at_nothing_gets_the_bias_of_the_output_projection():
    ours, _ = both(batch_first=True)
    x = torch.randn(B, Q, DIM, requires_grad=True)
    hidden = torch.zeros(Q, Q, dtype=torch.bool)
    hidden[1] = True
    everything = torch.zeros(Q, Q).masked_fill(hidden, -INF)
    for mask, need_weights in product((hidden, everything), (True, False)):
        y, weights = ours(x, x, x, attn_mask=mask, need_weights=need_weights)
        close(y[:, 1], ours.out_proj.bias.expand(B, DIM))
        assert weights is None or not weights[:, 1].any()
        for gradient in torch.autograd.grad(y.sum(), [x, *ours.parameters()]):
            assert gradient.isfinite().all()


@pytest.mark.parametrize("name", registry("attention").names())
def test_heads_of_any_width_and_grouped_keys_work_with_every_attention(name):
    """With weights and without alike; values of ones give ones."""
    ours = tfzoo.MultiheadAttention(
        DIM, 4, attention=name, head_dim=6, value_head_dim=3, kv_heads=2, temperature=1.5
    )
    x, memory = torch.randn(Q, B, DIM), torch.randn(K, B, DIM)
    for given in ((x, x, x), (x, memory, memory)):
        y, weights = ours(*given, average_attn_weights=False)
        assert y.shape == (Q, B, DIM)
        assert weights.shape == (B, 4, Q, len(given[1]))
        close(weights.sum(-1), torch.ones(B, 4, Q))
        close(ours(*given, need_weights=False)[0], y)


def test_it_is_the_first_layer():
    block = tfzoo.MultiheadAttention(16, 2, attention="differential")
    assert block.attention.lambda_init == pytest.approx(0.2)


def test_a_weighting_and_a_cap_act_with_weights_and_without():
    """With values of ones, an output is the sum of its weights."""
    x = torch.randn(Q, B, DIM)
    ours = tfzoo.MultiheadAttention(DIM, HEADS, weighting="sink", cap=0.5)
    nn.init.constant_(ours.weighting.sink, 1.0)
    y, weights = ours(x, x, x, average_attn_weights=False)
    close(ours(x, x, x, need_weights=False)[0], y)
    ratio = weights.amax(-1) / weights.amin(-1)
    assert (weights.sum(-1) < 0.9).all()
    assert (ratio < math.exp(2 * 0.5)).all(), "scores are within the cap"
    swapped = nn.ModuleList([ours])
    tfzoo.swap(swapped, attention="cosine")
    assert (swapped[0].cap, swapped[0].weighting) == (0.5, ours.weighting)


def encoder(attention, change):
    """Its attention is replaced before, or after it is built."""
    layer = nn.TransformerEncoderLayer(DIM, HEADS, 16, dropout=0.0, batch_first=True)

    def replaced():
        ours = tfzoo.MultiheadAttention(DIM, HEADS, batch_first=True, attention=attention)
        for parameter in ours.parameters():
            nn.init.normal_(parameter, std=0.5)
        return ours

    if not change:
        layer.self_attn = replaced()
        return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    for one in model.layers:
        one.self_attn = replaced()
    return model


@pytest.mark.parametrize("change", [False, True])
@pytest.mark.parametrize("name", registry("attention").names())
def test_torchs_encoder_computes_its_attention_in_evaluation_too(name, change):
    """PyTorch's fast path would compute another one, without a word."""
    model, x = encoder(name, change), torch.randn(B, Q, DIM)
    padding = torch.arange(Q) >= torch.tensor([[Q], [2], [1]])
    causal = nn.Transformer.generate_square_subsequent_mask(Q)
    for named in ({}, {"src_key_padding_mask": padding}, {"mask": causal}):
        wanted = model.train()(x, **named)
        with torch.no_grad():
            found = model.eval()(x, **named)
        shown = ~padding if "src_key_padding_mask" in named else torch.ones(B, Q, dtype=torch.bool)
        close(found[shown], wanted[shown])


def test_what_cannot_be_is_refused_in_one_line():
    build = tfzoo.MultiheadAttention
    for options in ({"add_bias_kv": True}, {"add_zero_attn": True}):
        with pytest.raises(BadOption, match="add_bias_kv"):
            build(DIM, HEADS, **options)
    with pytest.raises(BadOption, match="heads=3 do not divide dim=8"):
        build(DIM, 3)
    ours, x, memory = build(DIM, HEADS, batch_first=True), *torch.randn(2, B, Q, DIM)
    for given, named, words in (
        ((x, memory[:, :, :5], memory), {}, r"widths \(8, 8, 8\)"),
        ((x, memory[:2], memory[:2]), {}, r"\(b n width\)"),
        ((x, memory, memory[:, :2]), {}, "keys and values of the same tokens"),
        ((x, x, x), {"attn_mask": torch.ones(Q, Q).int()}, "attn_mask must be boolean"),
        ((x, x, x), {"attn_mask": torch.ones(Q, 2)}, r"attn_mask is \(4, 2\), not \(4, 4\)"),
        ((x, x, x), {"attn_mask": torch.ones(B, Q, Q)}, r"\(3, 4, 4\), not \(6, 4, 4\)"),
        ((x, x, x), {"key_padding_mask": torch.ones(Q, B)}, r"\(4, 3\), not \(3, 4\)"),
        ((x, x, x), {"key_padding_mask": torch.ones(Q)}, r"\(4,\), not \(3, 4\)"),
        ((torch.nested.as_nested_tensor([x[0], x[1, :2]]),) * 3, {}, "enable_nested_tensor=False"),
    ):
        with pytest.raises(BadOption, match=words):
            ours(*given, **named)
