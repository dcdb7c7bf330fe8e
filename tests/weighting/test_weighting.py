"""Every weighting is held to code of others, or to its formula written row by row."""

from types import SimpleNamespace

import entmax
import pytest
import torch
from torch.testing import assert_close
from transformers.models.gemma2 import modeling_gemma2
from transformers.models.gpt_oss import modeling_gpt_oss

from tests.exact import close
from tfzoo.base.registry import create, registry
from tfzoo.errors import BadOption
from tfzoo.masks import Mask

B, H, N = 2, 3, 12
VALID = torch.arange(N) < torch.tensor([[N], [5]])


def scores(size=2.0):
    torch.manual_seed(0)
    return (size * torch.randn(B, H, N, N, dtype=torch.float64)).requires_grad_()


def gradient(weights, *inputs):
    torch.manual_seed(1)
    return torch.autograd.grad((weights * torch.randn_like(weights)).sum(), inputs)


@pytest.mark.parametrize("size", [0.1, 1.0, 30.0])
@pytest.mark.parametrize(
    ("name", "package"), [("sparsemax", entmax.sparsemax), ("entmax", entmax.entmax15)]
)
def test_sparse_weights_are_those_of_the_entmax_package(name, package, size):
    weighting, given = create("weighting", name), scores(size)
    with torch.no_grad():
        given[0, 0, :, :4] = given[0, 0, :, :1]  # equal scores
    for mask, shown in ((Mask(), N), (Mask(keys=VALID), 5)):
        ours = weighting(given, mask)[1, ..., :shown]
        theirs = package(given[1, ..., :shown], dim=-1)
        close(ours, theirs)
        close(gradient(ours, given), gradient(theirs, given))
    for row, (ours, theirs) in enumerate(
        zip(weighting(given, Mask(causal=True)).unbind(2), given.unbind(2), strict=True)
    ):
        close(ours[..., : row + 1], package(theirs[..., : row + 1], dim=-1))


def tensors(heads=H):
    torch.manual_seed(2)
    return tuple(2 * torch.randn(B, heads, N, 8, dtype=torch.float64) for _ in range(3))


def additive(mask):
    """A mask as ``transformers`` adds it to scores."""
    visible = mask.boolean(N, N, torch.device("cpu"))
    assert visible is not None
    return torch.zeros(B, 1, N, N, dtype=torch.float64).masked_fill(~visible, -1e300)


def test_sinks_are_those_of_gpt_oss():
    q, k, v = tensors()
    sink = create("weighting", "sink", heads=H).double()
    torch.nn.init.normal_(sink.sink)
    module = SimpleNamespace(sinks=sink.sink.flatten(), num_key_value_groups=1, training=False)
    mask = Mask(causal=True, keys=VALID)
    theirs, weights = modeling_gpt_oss.eager_attention_forward(
        module, q, k, v, additive(mask), scaling=8**-0.5
    )
    attention = create("attention", "scaled_dot_product")
    close(attention(q, k, v, mask=mask, weighting=sink), theirs.transpose(1, 2))
    ours = attention.weights(q, k, mask=mask, weighting=sink)
    close(gradient(ours, sink.sink), gradient(weights, sink.sink))


def test_a_soft_cap_is_that_of_gemma_2():
    q, k, v = tensors()
    module, mask = SimpleNamespace(num_key_value_groups=1, training=False), Mask(causal=True)
    theirs, _ = modeling_gemma2.eager_attention_forward(
        module, q, k, v, additive(mask), scaling=8**-0.5, softcap=3.0
    )
    ours = create("attention", "scaled_dot_product")(q, k, v, mask=mask, cap=3.0)
    assert_close(ours, theirs.transpose(1, 2), atol=1e-6, rtol=1e-6)  # its softmax is in fp32


def one_row(name, s):
    """The weights of one query by the formula: ``(k) -> (k)``, all keys visible."""
    n = len(s)
    best = s.sort(descending=True).values
    if name == "softmax_plus_one":
        return s.exp() / (1 + s.exp().sum())
    if name == "sigmoid":
        return 1 / (1 + n * (-s).exp())
    if name == "relu":
        return s.clamp(min=0) / n
    if name == "top_k":
        kept = torch.where(s >= best[min(8, n) - 1], s.exp(), 0.0)
        return kept / kept.sum()
    if name == "hardmax":
        return (s == best[0]).to(s.dtype)
    if name == "identity":
        return s
    return torch.full_like(s, 1 / n)


@pytest.mark.parametrize(
    "name", ["softmax_plus_one", "sigmoid", "relu", "top_k", "hardmax", "identity", "uniform"]
)
def test_weights_are_their_formula_over_the_visible_keys(name):
    weighting, given = create("weighting", name), scores().detach()
    allowed = torch.rand(B, H, N, N) < 0.8
    mask = Mask(causal=True, keys=VALID, allowed=allowed)
    visible = mask.boolean(N, N, torch.device("cpu"))
    assert visible is not None
    expected = torch.zeros_like(given)
    for place in torch.cartesian_prod(*(torch.arange(n) for n in (B, H, N))).tolist():
        sees = visible.expand(B, H, N, N)[tuple(place)]
        if sees.any():
            expected[tuple(place)][sees] = one_row(name, given[tuple(place)][sees])
    close(weighting(given, mask), expected)


def test_the_first_of_equal_scores_has_all_weight():
    weights = create("weighting", "hardmax")(torch.zeros(1, 1, 1, 20), Mask())
    assert weights.flatten().tolist() == [1.0] + [0.0] * 19


def test_scores_as_large_as_the_kth_are_kept_and_fewer_keys_than_k_are_all_kept():
    weighting, mask = create("weighting", {"name": "top_k", "k": 3}), Mask(causal=True)
    given = torch.tensor([2.0, 1.0, 1.0, 1.0, 0.0]).expand(1, 1, 5, 5)
    assert weighting(given, mask).ne(0).sum(-1).tolist() == [[[1, 2, 3, 4, 4]]]
    with pytest.raises(BadOption, match="k=0 must be a whole number at least 1"):
        create("weighting", {"name": "top_k", "k": 0})


@pytest.mark.parametrize("name", registry("weighting").names())
def test_attention_in_half_precision_weights_in_single(name):
    attention = create("attention", "scaled_dot_product")
    weighting = create("weighting", name, heads=H)
    q, k, v = (x.bfloat16() for x in tensors())
    with torch.autocast("cpu", torch.bfloat16):
        weights = attention.weights(q, k, mask=Mask(causal=True), weighting=weighting)
        out = attention(q, k, v, mask=Mask(causal=True), weighting=weighting)
        expected = weighting(attention.scores(q, k).float(), Mask(causal=True))
    assert weights.dtype == torch.float32
    assert_close(weights, expected, atol=0, rtol=0)
    assert out.dtype == torch.bfloat16
    assert_close(out, weights.bfloat16() @ v, atol=0, rtol=0)
