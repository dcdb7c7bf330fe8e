"""A mask says the same whatever it was asked before."""

import itertools
import re

import pytest
import torch
from torch.testing import assert_close

from tests.exact import close
from tfzoo.base.registry import create, registry
from tfzoo.contracts import Attention, Weighting
from tfzoo.errors import BadComponent, BadOption
from tfzoo.masks import Mask, dense, pairs

CPU = torch.device("cpu")


def visible(mask, q, k):
    found = mask.boolean(q, k, CPU)
    return torch.ones(q, k, dtype=torch.bool) if found is None else found[0, 0].expand(q, k)


@pytest.mark.parametrize("name", registry("attention").names())
def test_a_reused_causal_mask_does_not_show_the_future(name):
    torch.manual_seed(0)
    attention = create("attention", name, heads=2, head_dim=4, layer=0)
    for parameter in attention.parameters():
        torch.nn.init.normal_(parameter)
    mask, (q, k, v) = Mask(causal=True), torch.randn(3, 1, 2, 6, 4).unbind()
    attention(q[:, :, :1], k[:, :, :1], v[:, :, :1], mask=mask)
    assert torch.equal(attention(q, k, v, mask=mask), attention(q, k, v, mask=Mask(causal=True)))


@pytest.mark.parametrize("name", registry("attention").names())
def test_decoding_with_a_cache_of_plain_keys_equals_reading_at_once(name):
    """The last query stands beside the last key, and the plain call takes plain keys."""
    torch.manual_seed(0)
    attention = create("attention", name, heads=2, head_dim=4, layer=0).double()
    for parameter in attention.parameters():
        torch.nn.init.normal_(parameter)
    q, k, v = torch.randn(3, 1, 2, 6, 4, dtype=torch.float64).unbind()
    mask = Mask(causal=True)
    at_once = attention(q, k, v, mask=mask)
    for n in range(1, 7):
        step = attention(q[:, :, n - 1 : n], k[:, :, :n], v[:, :, :n], mask=mask)
        close(step, at_once[:, :, n - 1 : n])
    last = attention(q[:, :, 4:], k, v, mask=mask)
    close(last, at_once[:, :, 4:])
    keys = attention.prepare_keys(k)
    last = attention(q[:, :, 4:], keys, v, mask=mask, keys_prepared=True)
    close(last, at_once[:, :, 4:])


def test_queries_before_the_first_key_see_nothing():
    mask = Mask(causal=True)
    assert visible(mask, 3, 2).tolist() == [[False, False], [True, False], [True, True]]
    q, k = torch.randn(1, 2, 3, 4, requires_grad=True), torch.randn(1, 2, 2, 4)
    for name in registry("attention").names():
        out = create("attention", name, heads=2, head_dim=4, layer=0)(q, k, k, mask=mask)
        assert not out[:, :, 0].any()
        assert torch.autograd.grad(out.sum(), q)[0].isfinite().all()


def test_a_mask_of_inference_mode_can_be_trained_with():
    mask, q = Mask(causal=True), torch.randn(1, 1, 20, 4, requires_grad=True)
    attention = create("attention", "cosine", heads=1)
    with torch.inference_mode():
        attention(q, q, q, mask=mask)
    attention(q, q, q, mask=mask, bias=torch.zeros(20, 20)).sum().backward()
    mask.softmax(q @ q.mT)[..., 0].sum().backward()
    assert q.grad is not None
    assert q.grad.isfinite().all()
    assert q.grad.any()


def test_masks_of_all_kinds_are_combined():
    allowed = torch.rand(2, 1, 3, 5, generator=torch.Generator().manual_seed(0)) < 0.7
    keys = torch.arange(5) < torch.tensor([[5], [3]])
    rows, square = torch.tensor([1, 1, 0]), torch.ones(3, 5, dtype=torch.bool)
    for some, start in itertools.product((allowed, allowed[:1], pairs(allowed)), (1, None)):
        triangle = square.tril(start or 2)  # the last query stands beside the last key
        mask = Mask(True, keys, start, some)
        wanted = dense(some, 3, 5, CPU) & triangle & keys[:, None, None]
        for one, expected in ((mask, wanted), (mask.select(rows), wanted[rows])):
            assert torch.equal(one.boolean(3, 5, CPU), expected)
            assert torch.equal(one.pairs(3, 5).dense(3, 5, CPU), expected)
    shared = Mask(allowed=allowed[:1])
    assert torch.equal(shared.select(rows).boolean(3, 5, CPU), allowed[:1])


def test_what_is_no_mask_is_refused():
    with pytest.raises(BadOption, match=r"keys must be boolean.*int64"):
        Mask(keys=torch.ones(2, 3, dtype=torch.int64))
    with pytest.raises(BadOption, match="3 keys, but there are 4"):
        Mask(keys=torch.ones(2, 3, dtype=torch.bool)).boolean(4, 4, CPU)
    with pytest.raises(BadOption, match=r"allowed must be boolean.*float32"):
        Mask(allowed=torch.ones(1, 1, 4, 4))
    with pytest.raises(BadOption, match=r"pass allowed\[:, None\]"):
        Mask(allowed=torch.ones(4, 4, dtype=torch.bool))
    with pytest.raises(BadOption, match="4 queries and 5 keys, but there are 1 and 5"):
        Mask(allowed=torch.ones(1, 1, 4, 5, dtype=torch.bool)).boolean(1, 5, CPU)
    with pytest.raises(BadOption, match=r"keys must be \(b k\)"):
        Mask(keys=torch.ones(3, dtype=torch.bool))
    with pytest.raises(BadOption, match=r"keys must be boolean.*not list"):
        Mask(keys=[[True, False]])
    with pytest.raises(BadOption, match="causal is True or False"):
        Mask(torch.ones(2, 3, dtype=torch.bool))


@pytest.mark.parametrize("name", registry("attention").names())
def test_masks_and_values_of_other_texts_heads_or_tokens_are_refused(name):
    q = torch.randn(2, 4, 3, 4)
    attention = create("attention", name, heads=4, head_dim=4, layer=0)
    for mask, said in (
        (Mask(keys=torch.ones(3, 3, dtype=torch.bool)), "keys is (3, 3), but there are 2 texts"),
        (Mask(allowed=torch.ones(1, 3, 3, 3, dtype=torch.bool)), "2 texts of 4 heads"),
    ):
        with pytest.raises(BadOption, match=re.escape(said)):
            attention(q, q, q, mask=mask)
    with pytest.raises(BadOption, match="keys and values must be of the same tokens"):
        attention(q, q, q[:, :, :2])


def test_scores_and_weights_of_another_shape_are_an_error_that_names_the_class():
    q = torch.randn(2, 4, 3, 8)

    def attention(scores):
        return type("Own", (Attention,), {"scores": lambda self, q, k: scores(q @ k.mT)})()

    def weighting(weights):
        return type("Own", (Weighting,), {"forward": lambda self, scores, mask: weights(scores)})()

    for wrong, came in (
        (lambda x: x.sum(1), "(2, 3, 3)"),
        (lambda x: x[:, :1], "(2, 1, 3, 3)"),  # which would broadcast
        (lambda x: None, "NoneType"),
    ):
        said = re.escape(f"must be (b h q k), here (2, 4, 3, 3), not {came}")
        with pytest.raises(BadComponent, match=f"Own: scores {said}"):
            attention(wrong)(q, q, q)
        with pytest.raises(BadComponent, match=f"Own: weights {said}"):
            attention(lambda x: x)(q, q, q, weighting=weighting(wrong))


@pytest.mark.parametrize("name", registry("attention").names())
def test_an_attention_takes_a_mask_or_none_which_hides_nothing(name):
    q = torch.randn(1, 2, 3, 4)
    attention = create("attention", name, heads=2, head_dim=4, layer=0)
    with pytest.raises(BadOption, match=r"mask must be a tfzoo\.Mask, not Tensor"):
        attention(q, q, q, mask=torch.ones(3, 3, dtype=torch.bool))
    assert_close(attention(q, q, q), attention(q, q, q, mask=Mask()))
    assert_close(attention.weights(q, q), attention.weights(q, q, mask=Mask()))


def test_an_attention_that_would_mistake_its_keys_is_refused():
    with pytest.raises(BadComponent, match="prepared_scores"):

        class Half(Attention):
            prepare_keys = torch.neg

    with pytest.raises(BadComponent, match="it overrides forward"):

        class Faster(Attention):
            forward = torch.add

    q = torch.randn(1, 2, 3, 4)
    with pytest.raises(BadComponent, match=r"attention class Empty: write scores\(q, k\)"):
        type("Empty", (Attention,), {"__qualname__": "Empty"})()(q, q, q)


@pytest.mark.parametrize("mask", [Mask(), Mask(causal=True), Mask(keys=torch.arange(5)[None] < 3)])
@pytest.mark.parametrize("bias", [None, torch.arange(20.0).double().view(1, 1, 4, 5)])
def test_softmax_of_scores_of_minus_infinity_is_that_of_the_weighting(mask, bias):
    """Zeros where nothing else is left, with finite gradients."""
    given = torch.randn(1, 2, 4, 5, dtype=torch.float64)
    given[0, 0, 1], given[0, 1, 2, 1:] = float("-inf"), float("-inf")
    plain = (given if bias is None else given + bias).exp()
    shown = mask.boolean(4, 5, CPU)
    plain = plain if shown is None else plain.masked_fill(~shown, 0.0)
    expected = plain / plain.sum(-1, keepdim=True).clamp(min=1e-300)
    given.requires_grad_()
    weights = mask.softmax(given, bias)
    close(weights, expected.detach())
    (gradient,) = torch.autograd.grad(weights.square().sum(), given)
    assert gradient.isfinite().all()
    scores = given if bias is None else given + bias
    assert torch.equal(create("weighting", "softmax")(scores, mask), weights)
