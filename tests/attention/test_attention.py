"""Every attention is held to its own scores, and to code of others."""

from itertools import product

import pytest
import torch
from torch.testing import assert_close

from tests.daily import sampled
from tests.exact import close
from tests.golden import load
from tfzoo.base.registry import create, describe, registry
from tfzoo.components.attention import _inner_products
from tfzoo.masks import Mask

NAMES = registry("attention").names()
INNER = ["bilinear", "cosine", "differential", "dot_product", "euclidean", "scaled_dot_product"]
INNER += ["trained_scale"]
APART = [name for name in NAMES if "mixes_heads" not in describe("attention", name).traits]
HEADS = 4
KINDS = ["open", "causal", "padded", "causal padded"]


def made(name, dtype=torch.float64):
    torch.manual_seed(0)
    attention = create("attention", name, heads=HEADS, head_dim=8, layer=1)
    for parameter in attention.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return attention.to(dtype)


def call(q, k, value_dim=8, dtype=torch.float64):
    """Queries, keys and values as projections make them: heads behind tokens in memory."""
    torch.manual_seed(1)
    shapes = (q, 8), (k, 8), (k, value_dim)
    drawn = (torch.randn(4, n, HEADS, c, dtype=dtype).transpose(1, 2) for n, c in shapes)
    return tuple(x.requires_grad_() for x in drawn)


def mask(kind, k):
    """``padded`` leaves the last text nothing to look at."""
    keys = torch.arange(k) >= torch.tensor([[0], [1], [k - 2], [k]]) if "padded" in kind else None
    return Mask("causal" in kind, keys)


def gradients(out, attention, *inputs):
    torch.manual_seed(1)
    wanted = [x for x in (*inputs, *attention.parameters()) if x is not None]
    return list(torch.autograd.grad(out, wanted, torch.randn(out.shape, dtype=out.dtype)))


def biases(q, k):
    heads, keys = torch.randn(1, HEADS, q, k).double(), torch.randn(4, HEADS, 1, k).double()
    return [None, heads.requires_grad_(), keys.requires_grad_()]


@pytest.mark.parametrize("name", INNER)
def test_both_ways_to_multiply_agree(name, monkeypatch):
    """What an accelerator, a compiler and a CPU would choose."""
    attention = made(name)
    for kind, bias in product(KINDS, biases(12, 12)):
        outs = []
        for fused in (True, False):
            monkeypatch.setattr(_inner_products, "fused_is_faster", lambda *_, way=fused: way)
            outs.append(attention(*call(12, 12), mask=mask(kind, 12), bias=bias))
        close(*outs)


@pytest.mark.parametrize(("q", "k"), [(5, 5), (1, 20), (20, 40), (150, 150)])
@pytest.mark.parametrize("name", APART)
def test_a_bias_that_hides_all_keys_of_a_query_gives_zeros(name, q, k, monkeypatch):
    """Also together with a mask: each leaves some keys, both together none."""
    attention, inputs = made(name), call(q, k)
    bias = torch.randn(1, HEADS, q, k).double()
    bias[:, 0, -1] = float("-inf")
    bias[:, 1, -1, 2:] = float("-inf")
    bias.requires_grad_()
    some_keys = Mask(keys=(torch.arange(k) >= 2).expand(4, k))
    for fused in (None, True, False):
        if fused is not None:
            monkeypatch.setattr(_inner_products, "fused_is_faster", lambda *_, way=fused: way)
        for visible, empty in ((Mask(), [0]), (some_keys, [0, 1]), (Mask(causal=True), [0])):
            out = attention(*inputs, mask=visible, bias=bias)
            assert not out[:, empty, -1].any()
            assert out[:, 2].all()
            assert out.isfinite().all()
            for grad in gradients(out, attention, *inputs, bias):
                assert grad.isfinite().all()
        weights = attention.weights(inputs[0], inputs[1], mask=some_keys, bias=bias)
        assert not weights[:, :2, -1].any()


@pytest.mark.parametrize("name", sampled(NAMES, ["additive"]))
def test_gradients_of_compiled_attention_are_right(name):
    """By day of one that has a kernel; a contract compiles all of them."""
    attention, inputs = made(name), call(20, 20)
    options = {"mask": mask("causal padded", 20), "bias": torch.randn(1, HEADS, 20, 20).double()}
    compiled = torch.compile(attention, fullgraph=True, backend="aot_eager")
    got, wanted = compiled(*inputs, **options), attention(*inputs, **options)
    close(got, wanted)
    close(gradients(got, attention, *inputs), gradients(wanted, attention, *inputs))


@pytest.mark.parametrize("name", ["additive", "bilinear"])
def test_agrees_with_joeynmt(name):
    """Theirs takes queries and keys of unequal width: the narrower is filled up with zeros."""
    _, arrays = load(f"attn/{name}_joeynmt")
    query, keys = arrays["in.query"].double(), arrays["in.keys"].double()
    width = keys.shape[-1]
    q = torch.nn.functional.pad(query, (0, width - query.shape[-1]))[:, None]
    hidden = arrays["param.key_layer.weight"].shape[0]
    attention = create(
        "attention",
        {"name": name} | ({"hidden": hidden} if name == "additive" else {}),
        heads=1,
        head_dim=width,
    ).double()
    fill = (0, 0, 0, width - query.shape[-1])
    with torch.no_grad():
        if name == "additive":
            attention.query[0] = torch.nn.functional.pad(arrays["param.query_layer.weight"].T, fill)
            attention.key[0] = arrays["param.key_layer.weight"].T
            attention.score[0] = arrays["param.energy_layer.weight"][0]
        else:
            attention.weight[0] = torch.nn.functional.pad(arrays["param.key_layer.weight"], fill)
    visible = Mask(keys=arrays["mask.key_valid"].view(keys.shape[0], -1))
    out = attention(q, keys[:, None], keys[:, None], mask=visible)
    close(out[:, 0], arrays["out64.y"].view_as(out[:, 0]))
    weights = attention.weights(q, keys[:, None], mask=visible)
    close(weights[:, 0], arrays["out64.weights"].view_as(weights[:, 0]))


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
