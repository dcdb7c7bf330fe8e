"""Every attention is held to its own scores, and to code of others."""

from __future__ import annotations

import functools
import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from tests.golden import load
from tfzoo.attention import _inner_products, _tanh_scores
from tfzoo.contracts import Attention
from tfzoo.masks import Mask
from tfzoo.registry import create, registry

NAMES = registry("attention").names()
INNER = ["bilinear", "cosine", "dot_product", "euclidean", "scaled_dot_product"]


def made(name: str, heads: int = 3, head_dim: int = 8) -> Attention:
    attention: Attention = create("attention", name, heads=heads, head_dim=head_dim)
    for parameter in attention.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return attention


def call(q: int, k: int, value_dim: int = 8) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values as projections make them: heads behind tokens in memory."""
    shapes = (q, 8), (k, 8), (k, value_dim)
    return tuple(torch.randn(4, n, 3, c).transpose(1, 2).requires_grad_() for n, c in shapes)  # type: ignore[return-value]


def mask(kind: str, q: int, k: int) -> Mask:
    """``holes`` leaves the first text nothing to look at."""
    keys = torch.arange(k) >= torch.tensor([[k], [k - 1], [2], [0]]) if "holes" in kind else None
    return Mask("causal" in kind, keys, k - q if "causal" in kind else 0)


def by_scores(attention: Attention, q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
    return Attention.forward(attention, q, k, v, **options)


def gradients(out: Tensor, attention: Attention, *inputs: Tensor | None) -> list[Tensor]:
    torch.manual_seed(1)
    wanted = [x for x in (*inputs, *attention.parameters()) if x is not None]
    return list(torch.autograd.grad(out, wanted, torch.randn(out.shape, dtype=out.dtype)))


@pytest.mark.parametrize("bias", [None, "heads", "keys"])
@pytest.mark.parametrize("kind", ["open", "causal", "holes", "causal holes"])
@pytest.mark.parametrize(("q", "k"), [(5, 5), (3, 20), (20, 20), (1, 7), (60, 130)])
@pytest.mark.parametrize("name", NAMES)
def test_forward_agrees_with_scores(
    name: str, q: int, k: int, kind: str, bias: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    monkeypatch.setattr(_tanh_scores, "SMALL", 0)
    monkeypatch.setattr(
        _tanh_scores, "BLOCK", max(300, q * k // 2 + 1)
    )  # several blocks, the last one smaller
    attention, inputs = made(name), call(q, k, 8 if bias is None else 6)
    added = {
        None: None,
        "heads": torch.randn(1, 3, q, k, requires_grad=True),
        "keys": torch.randn(4, 3, 1, k, requires_grad=True),
    }[bias]
    options = {"mask": mask(kind, q, k), "bias": added, "temperature": 0.7}
    got = attention(inputs[0], inputs[1], inputs[2], **options)
    wanted = by_scores(attention, *inputs, **options)
    assert_close(got, wanted, atol=1e-5, rtol=1e-4)
    ours, theirs = (
        gradients(got, attention, *inputs, added),
        gradients(wanted, attention, *inputs, added),
    )
    for one, other in zip(ours, theirs, strict=True):
        assert one.isfinite().all()
        assert_close(one, other, atol=2e-5 * max(1.0, float(other.detach().abs().max())), rtol=1e-3)
    if "holes" in kind:
        assert not got[0].any(), "a query that may look at nothing returns zeros"


@pytest.mark.parametrize("kind", ["open", "causal", "causal holes"])
@pytest.mark.parametrize("name", INNER)
def test_all_ways_to_multiply_agree(name: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an accelerator, a compiler and a CPU would choose."""
    torch.manual_seed(0)
    attention, (q, k, v) = made(name), call(12, 12)
    outs = []
    for way in (_inner_products.fused, _inner_products.plain, None):
        with monkeypatch.context() as patch:
            if way:
                patch.setattr(
                    _inner_products,
                    "fused_is_faster",
                    lambda *_, way=way: way is _inner_products.fused,
                )
                patch.setattr(_inner_products, "eager", lambda *_: False)
            outs.append(attention(q, k, v, mask=mask(kind, 12, 12)))
    assert_close(outs[0], outs[2], atol=1e-5, rtol=1e-4)
    assert_close(outs[1], outs[2], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_bf16_autocast_is_near_fp32(name: str) -> None:
    torch.manual_seed(0)
    attention, (q, k, v) = made(name), call(20, 20)
    options = {"mask": mask("causal holes", 20, 20), "bias": torch.randn(1, 3, 20, 20)}
    wanted = attention(q, k, v, **options)
    with torch.autocast("cpu", torch.bfloat16):
        half = [x.bfloat16() for x in (q, k, v)]
        got = attention(half[0], half[1], half[2], **options)
    assert got.dtype == torch.bfloat16
    assert not got[0].any()
    assert_close(got.float(), wanted, atol=0.15, rtol=0.05)
    assert all(grad.isfinite().all() for grad in gradients(got, attention, q, k, v))


@pytest.mark.parametrize("name", NAMES)
def test_compiles_without_a_break(name: str) -> None:
    torch.manual_seed(0)
    attention, (q, k, v) = made(name), call(20, 20)
    options = {"mask": mask("causal holes", 20, 20), "bias": torch.randn(1, 3, 20, 20)}
    compiled = torch.compile(attention, fullgraph=True, backend="aot_eager")
    got, wanted = (
        compiled(q, k, v, **options),
        attention(q, k, v, **options),
    )
    assert_close(got, wanted, atol=1e-5, rtol=1e-4)
    for one, other in zip(
        gradients(got, attention, q, k, v), gradients(wanted, attention, q, k, v), strict=True
    ):
        assert_close(one, other, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("length", [12, 40])
@pytest.mark.parametrize("name", ["scaled_dot_product", "additive"])
def test_dropout_falls_on_weights(name: str, length: int) -> None:
    """With values that count keys, each output counts the weights that were kept."""
    torch.manual_seed(0)
    attention, (q, k, _) = made(name), call(length, length)
    v = torch.ones(4, 3, length, 8, requires_grad=True)
    out = attention(q * 0.0, k * 0.0, v, mask=Mask(), dropout=0.25)  # all weights are 1 / length
    kept = out[..., 0] * length * 0.75
    assert_close(kept, kept.round(), atol=1e-3, rtol=0.0)
    assert_close(kept.mean() / length, torch.tensor(0.75), atol=0.05, rtol=0.0)
    (grad,) = torch.autograd.grad(out[..., 0].sum(), v)
    assert_close(grad[..., 0].sum(), out[..., 0].sum())


@pytest.mark.parametrize("name", NAMES)
def test_dropout_draws_and_backs_as_the_reference_does(name: str) -> None:
    torch.manual_seed(0)
    attention, (q, k, v) = made(name), call(20, 40)
    results = []
    for forward in (attention, functools.partial(Attention.forward, attention)):
        torch.manual_seed(2)
        out = forward(q, k, v, mask=mask("holes", 20, 40), dropout=0.3)
        results.append([out, *gradients(out, attention, q, k, v)])
    for one, other in zip(*results, strict=True):
        assert_close(one, other, atol=2e-5 * max(1.0, float(other.detach().abs().max())), rtol=1e-3)


PEERS = {
    "sdpa_plain": "scaled_dot_product",
    "sdpa_causal_padding": "scaled_dot_product",
    "dot_unscaled_cross_padding": "dot_product",
}


@pytest.mark.parametrize(("case_id", "name"), list(PEERS.items()))
def test_agrees_with_torch(case_id: str, name: str) -> None:
    _, arrays = load(f"attn/{case_id}")
    attention = create("attention", name)
    q, k, v = (arrays[f"in.{x}"].requires_grad_() for x in "qkv")
    visible = Mask()
    if "mask.attend" in arrays:
        attend = arrays["mask.attend"]
        visible = Mask("causal" in case_id, attend[:, 0, -1])  # the last query sees all real keys
        boolean = visible.boolean(q.shape[-2], k.shape[-2], q.device)
        assert boolean is not None
        assert torch.equal(boolean.expand(attend.shape), attend)
    out = attention(q, k, v, mask=visible)
    assert_close(out, arrays["out64.y"].float(), atol=2e-6, rtol=1e-5)
    assert_close(attention.weights(q, k, mask=visible), arrays["out.weights"], atol=2e-6, rtol=1e-5)
    for x, grad in zip("qkv", torch.autograd.grad(out, (q, k, v), arrays["cot.y"]), strict=True):
        assert_close(grad, arrays[f"grad.{x}"], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["additive", "bilinear"])
def test_agrees_with_joeynmt(name: str) -> None:
    """Theirs takes queries and keys of unequal width: the narrower is filled up with zeros."""
    _, arrays = load(f"attn/{name}_joeynmt")
    query, keys = arrays["in.query"], arrays["in.keys"]
    width = keys.shape[-1]
    q = torch.nn.functional.pad(query, (0, width - query.shape[-1]))[:, None]
    hidden = arrays["param.key_layer.weight"].shape[0]
    attention = create(
        "attention",
        {"name": name} | ({"hidden": hidden} if name == "additive" else {}),
        heads=1,
        head_dim=width,
    )
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
    assert_close(out[:, 0], arrays["out64.y"].float().view_as(out[:, 0]), atol=2e-6, rtol=1e-5)


def test_blind_rows_are_zeros_with_the_gradients_of_the_fused_kernel() -> None:
    _, arrays = load("attn/fully_masked_rows")
    q, k, v = (arrays[f"in.{x}"].requires_grad_() for x in "qkv")
    attend = arrays["mask.attend"]
    visible = Mask(keys=attend[:, 0, 0])
    out = create("attention", "scaled_dot_product")(q, k, v, mask=visible)
    assert_close(out, arrays["peer.torch_sdpa_math.y"], atol=2e-6, rtol=1e-5)
    for x, grad in zip("qkv", torch.autograd.grad(out, (q, k, v), arrays["cot.y"]), strict=True):
        assert_close(grad, arrays[f"peer.torch_sdpa_math.grad_{x}"], atol=1e-5, rtol=1e-4)


def test_euclidean_measures_distance() -> None:
    q, k, _ = call(4, 6)
    wanted = -torch.cdist(q, k).square() / math.sqrt(8)
    assert_close(create("attention", "euclidean").scores(q, k), wanted, atol=1e-4, rtol=1e-4)


def test_cosine_does_not_read_sizes() -> None:
    attention, (q, k, v) = made("cosine"), call(4, 6)
    long = attention(q * 7.0, k * 0.1, v, mask=Mask())
    assert_close(long, attention(q, k, v, mask=Mask()))
