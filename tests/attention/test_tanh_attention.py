"""Additive attention from scores to output, block by block, computes what its parts do one after
the other.
"""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.testing import assert_close

from tests.exact import close
from tfzoo.attention import _tanh_attention, _tanh_scores, additive
from tfzoo.attention._tanh_attention import blocks, tanh_attention
from tfzoo.base.registry import create
from tfzoo.contracts import Attention
from tfzoo.masks import Mask

B, H, Q, K, C, E = 3, 2, 70, 90, 4, 5
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Also for small inputs, in several blocks of which the last are smaller."""
    monkeypatch.setattr(_tanh_scores, "SMALL", 0)
    monkeypatch.setattr(_tanh_attention, "BLOCK", 5000)
    monkeypatch.setattr(_tanh_attention, "QUERIES", 16)


def masks():
    draw = torch.Generator().manual_seed(1)
    real = torch.arange(K) < torch.tensor([[K], [50], [0]])
    distance = torch.arange(Q)[:, None] + (K - Q) - torch.arange(K)
    return {
        "open": Mask(),
        "causal": Mask(causal=True),
        "causal, queries before all keys": Mask(causal=True, start=0),
        "causal, first keys seen by all": Mask(causal=True, start=200),
        "padded": Mask(keys=real),
        "padded on the left, causal": Mask(causal=True, keys=real.flip(1)),
        "the same padding for all texts": Mask(keys=real[1:2]),
        "a window": Mask(causal=True, allowed=(distance < 7)[None, None]),
        "other keys for each head": Mask(allowed=torch.rand(1, H, Q, K, generator=draw) > 0.5),
        "other keys for each text": Mask(allowed=torch.rand(B, 1, Q, K, generator=draw) > 0.9),
        "nothing": Mask(allowed=torch.zeros(1, 1, Q, K, dtype=torch.bool)),
    }


def inputs(dtype=torch.float64, scale=1.0):
    """``a``, ``b``, ``v`` and values; heads behind tokens in memory."""
    draw = torch.Generator().manual_seed(0)
    shapes = (B, Q, H, C), (B, K, H, C), (H, C), (B, K, H, E)
    drawn = [torch.randn(shape, generator=draw, dtype=dtype) for shape in shapes]
    drawn = [x.transpose(1, 2) if x.dim() == 4 else x for x in drawn]
    return [(x * (scale if n < 2 else 1.0)).requires_grad_() for n, x in enumerate(drawn)]


def reference(a, b, v, values, mask):
    scores = (torch.tanh(a[..., :, None, :] + b[..., None, :, :]) * v[:, None, None]).sum(-1)
    return mask.softmax(scores) @ values


def agrees(one, other, given, limit):
    """Values and gradients."""
    slope = torch.randn(one.shape, generator=torch.Generator().manual_seed(2), dtype=one.dtype)
    pairs = zip(
        (one, *torch.autograd.grad(one, given, slope)),
        (other, *torch.autograd.grad(other, given, slope)),
        strict=True,
    )
    for x, y in pairs:
        assert x.isfinite().all()
        assert_close(x, y, atol=limit * max(1.0, float(y.detach().abs().max())), rtol=0.0)


@pytest.mark.parametrize("name", masks())
def test_any_mask(name):
    mask = masks()[name]
    for dtype, limit, scale in (
        (torch.float64, 1e-9, 1.0),
        (torch.float64, 1e-9, 300.0),  # too wide for exponentials
        (torch.float32, 1e-5, 1.0),
    ):
        given = inputs(dtype, scale)
        found = tanh_attention(*given, mask, 0.0)
        assert found is not None
        agrees(found, reference(*given, mask), given, limit)
        with torch.no_grad():
            assert_close(tanh_attention(*given, mask, 0.0), found, atol=0.0, rtol=0.0)
        empty = mask.fully_masked(Q, K, CPU)
        if empty is not None:
            assert not found.masked_select(empty).any()


@pytest.mark.parametrize("name", ["open", "padded on the left, causal", "other keys for each text"])
def test_dropout_leaves_out_its_share_in_forward_and_backward_alike(name):
    """Of values that are one key each, the output is the weights."""
    mask, p = masks()[name], 0.25
    a, b, v, values = given = inputs()
    keys = torch.eye(K).double().expand(B, H, -1, -1)

    def dropped(values):
        torch.manual_seed(3)
        return tanh_attention(a, b, v, values, mask, p)

    whole = reference(a, b, v, keys, mask)
    factor = torch.where(whole > 0, dropped(keys) / whole, 0.0).detach()
    seen = factor[whole > 0]
    kept = seen > 0.5
    assert_close(seen[kept], torch.full_like(seen[kept], 1 / (1 - p)))
    assert not seen[~kept].any()
    deviation = (p * (1 - p) / len(seen)) ** 0.5
    assert abs(float(kept.double().mean()) - (1 - p)) < 5 * deviation
    scores = (torch.tanh(a[..., :, None, :] + b[..., None, :, :]) * v[:, None, None]).sum(-1)
    agrees(dropped(values), (mask.softmax(scores) * factor) @ values, given, 1e-9)


def test_gradients_and_second_derivatives_are_right():
    draw = torch.Generator().manual_seed(0)
    shapes = (2, 1, 3, 2), (2, 1, 50, 2), (1, 2), (2, 1, 50, 1)
    given = [torch.randn(s, generator=draw).double().requires_grad_() for s in shapes]
    real = torch.arange(50) < torch.tensor([[4], [0]])

    def seeded(*given):
        torch.manual_seed(0)
        return tanh_attention(*given, Mask(causal=True, keys=real), 0.3)

    assert gradcheck(seeded, given, fast_mode=True)
    assert gradgradcheck(seeded, given, fast_mode=True)


def test_autocast_changes_nothing():
    given, mask = inputs(torch.float32), masks()["padded on the left, causal"]

    def results():
        out = tanh_attention(*given, mask, 0.0)
        assert out is not None
        return [out, *torch.autograd.grad(out.sum(), given)]

    wanted = results()
    with torch.autocast("cpu", torch.bfloat16):
        found = results()
    for one, other in zip(found, wanted, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("name", masks())
def test_blocks_are_all_pairs_that_are_seen(name):
    visible = masks()[name].boolean(Q, K, CPU)
    seen = torch.ones(B, H, Q, K) if visible is None else visible.expand(B, H, Q, K).float()
    times = torch.zeros(B * H, Q, K)
    for block in blocks((B, H, Q, K), visible):
        times[block[2:]] += 1
        assert torch.equal(times[block.groups], times.view(B, H, Q, K)[block[:2]].flatten(0, 1))
    assert times.max() <= 1
    assert not (seen.flatten(0, 1) > times).any()
    if name == "a window":
        assert float(times.mean()) < 0.3, "keys that no query sees are left out"


def test_the_attention_takes_it(monkeypatch):
    """With a temperature; with a bias, or dropout of everything, it takes its parts."""
    attention = create("attention", "additive", heads=H, head_dim=C).double()
    torch.nn.init.normal_(attention.score)
    q, k, _, v = (x.detach() for x in inputs())
    calls = list[bool]()

    def noted(*given):
        out = tanh_attention(*given)
        calls.append(out is not None)
        return out

    monkeypatch.setattr(additive, "tanh_attention", noted)
    mask = masks()["padded on the left, causal"]
    found = attention(q, k, v, mask=mask, temperature=0.5)
    wanted = Attention.softmax_attention(
        attention, q, attention.prepare_keys(k), v,
        mask=mask, bias=None, temperature=0.5, dropout=0.0,
    )  # fmt: skip
    close(found, wanted)
    attention(q, k, v, mask=mask, bias=torch.zeros(1, 1, 1, K).double())
    attention(q, k, v, mask=mask, dropout=1.0)
    attention(q[:, :, :5], k[:, :, :7], v[:, :, :7])
    assert calls == [True, False, False]
