"""FlexAttention computes the formula: forward here, backward in tests/gpu/test_flex.py."""

from typing import Any

import pytest
import torch

import tfzoo
from tests.daily import sampled
from tests.exact import close
from tfzoo.base import adapters, kernels
from tfzoo.base.functional import soft_cap
from tfzoo.base.registry import create, registry
from tfzoo.components.attention import _flex, _inner_products
from tfzoo.components.attention._flex import flex
from tfzoo.masks import Mask, Pairs, pairs
from tfzoo.models.initialise import initialise
from tfzoo.models.positioned import bias_of_distance, within

B, H, Q, K, C = 2, 2, 150, 170, 16
CPU, GPU = torch.device("cpu"), torch.device("cuda")
RELATIVE = [
    name for name in registry("position").names()
    if "bias_of_distance" in registry("position").entry(name).traits
]  # fmt: skip


def positions(n, rows=1):
    return torch.arange(n).expand(rows, -1)


def position_bias(name):
    given = {"dim": 8, "heads": H, "head_dim": C, "max_length": 500, "causal": False}
    torch.manual_seed(2)
    position = create("position", name, **given).double()
    bias = bias_of_distance(position, positions(K)[:, K - Q :], positions(K))
    assert bias is not None
    return bias


def real(*lengths):
    return torch.arange(K) < torch.tensor(lengths)[:, None]


def cases():
    draw = torch.Generator().manual_seed(5)
    texts = torch.randint(0, 3, (B, K), generator=draw).sort(1).values
    near = within(positions(K)[:, K - Q :], positions(K), 20, causal=True)
    around = within(positions(K, B)[:, K - Q :], positions(K, B), 9, causal=False)
    packed = Pairs(lambda b, h, q, k: texts[b, q + K - Q] == texts[b, k], B)
    heads = torch.rand(1, H, Q, K, generator=draw) > 0.3
    even = (torch.arange(Q) % 2 == 0)[:, None]
    some = torch.zeros(1, 1, 1, K).masked_fill(torch.arange(K) > 50, -torch.inf).double()
    made = {
        "a soft cap": {"cap": 3.0},
        "a causal window": {"mask": Mask(causal=True, allowed=near)},
        "a window to both sides": {"mask": Mask(keys=real(170, 90), allowed=around)},
        "packed texts": {"mask": Mask(causal=True, allowed=packed)},
        "packed texts in a window": {"mask": Mask(causal=True, allowed=packed & near)},
        "a prefix": {"mask": Mask(allowed=Pairs(lambda b, h, i, j: (j <= i) | (j < 60)))},
        "padding on the left": {"mask": Mask(causal=True, keys=real(170, 60).flip(1)), "cap": 2.0},
        "a text of nothing but padding": {"mask": Mask(keys=real(0, 5)), "cap": 2.0},
        "other keys for each head": {"mask": Mask(allowed=pairs(heads))},
        "queries that see nothing": {"mask": Mask(allowed=pairs(heads & even))},
        "a bias that hides": {"bias": pairs(some)},
        "a bias and a cap": {"bias": pairs(torch.randn(B, H, Q, K).double()), "cap": 4.0},
    }
    made |= {name: {"bias": position_bias(name), "mask": Mask(causal=True)} for name in RELATIVE}
    mask = Mask(causal=True, keys=real(170, 90), allowed=packed & around)
    made["all of it"] = {"bias": position_bias("alibi"), "mask": mask, "cap": 3.0}
    return made


def inputs(name):
    draw = torch.Generator().manual_seed(1)
    q = K if name == "a prefix" else Q
    made = [torch.randn(B, H, n, C, generator=draw).double() for n in (q, K, K)]
    return made[0], made[1], made[2]


def reference(q, k, v, call):
    """The formula as it stands, with all pairs in memory."""
    scores = q @ k.mT / C**0.5
    if call.get("cap"):
        scores = soft_cap(scores, call["cap"])
    lengths = q.shape[-2], k.shape[-2]
    if call.get("bias"):
        scores = scores + call["bias"].dense(*lengths, CPU)
    visible = call.get("mask", Mask()).boolean(*lengths, CPU)
    hidden = scores == -torch.inf if visible is None else ~visible | (scores == -torch.inf)
    exponentials = scores.masked_fill(hidden, -torch.inf).exp()
    return exponentials / exponentials.sum(-1, keepdim=True).clamp(min=1e-300) @ v


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("name", sampled(cases(), [*cases()][::2]))
def test_its_forward_is_the_formula(name):
    call = cases()[name]
    q, k, v = inputs(name)
    with torch.no_grad():
        found = flex(q, k, v, call.get("mask", Mask()), call.get("bias"), C**-0.5, call.get("cap"))
        close(found, reference(q, k, v, call))


@pytest.mark.parametrize("name", cases())
def test_gradients_of_the_dense_form_are_the_formula_s(name):
    call = cases()[name]
    given = [x.requires_grad_() for x in inputs(name)]
    attention = create("attention", "scaled_dot_product")
    found, wanted = attention(*given, **call), reference(*given, call)
    close(found, wanted)
    upstream = torch.randn(found.shape, generator=torch.Generator().manual_seed(3)).double()
    close(*(torch.autograd.grad(one, given, upstream) for one in (found, wanted)))


@pytest.mark.parametrize("name", RELATIVE)
def test_a_table_of_distances_is_the_bias_with_its_gradients(name):
    given = {"dim": 8, "heads": 3, "head_dim": C, "max_length": 500, "causal": True}
    position = create("position", name, **given).double()
    q_pos, k_pos = torch.tensor([[3, 4], [-1, 0]]), torch.arange(-1, 8).expand(2, -1)
    bias = bias_of_distance(position, q_pos, k_pos)
    assert bias is not None
    found, wanted = bias.dense(2, 9, CPU), position.bias(q_pos, k_pos)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)
    upstream = torch.randn_like(wanted)
    through = [x for x in position.parameters() if x.requires_grad]
    if through:
        close(*(torch.autograd.grad(one, through, upstream) for one in (found, wanted)))


MODELS: dict[str, dict[str, Any]] = {
    "alibi": {"position": "alibi"},
    "relative_bias": {"position": "relative_bias", "window": 12},
    "capped windows": {"position": "rotary", "cap": 5.0, "window": 30},
    "cosine": {"position": "kerple", "attention": "cosine"},
    "another attention": {"position": "alibi", "attention": "additive", "window": 12},
    "another weighting": {"position": "alibi", "weighting": "sparsemax", "window": 12},
}


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("packed", sampled([False, True], [True]), ids=["texts", "packed"])
@pytest.mark.parametrize("name", MODELS)
def test_a_model_that_chooses_it_computes_the_same(name, packed, monkeypatch):
    """As on CUDA, but for the kernel; in fp32, as it has no float64."""
    made = tfzoo.LanguageModel(50, dim=32, heads=2, layers=2, **MODELS[name])
    initialise(made, 1)
    made.eval()
    text = torch.randint(4, 50, (2, 270), generator=torch.Generator().manual_seed(0))
    lengths = torch.tensor([270, 190])
    call = {"mask": Mask.right(lengths, 270)}
    if packed:
        part = (torch.arange(270) // 85)[None]
        same = Pairs(lambda b, h, q, k: part[b, q] == part[b, k])
        call["mask"] = Mask.right(lengths, 270, causal=True, allowed=same)
    calls = 0

    def chosen(*given):
        nonlocal calls
        calls += 1
        return flex(*given)

    with torch.no_grad():
        wanted = made(text, **call)
        monkeypatch.setattr(kernels, "flex_attention_applies", lambda *given: True)
        monkeypatch.setattr(_inner_products, "flex", chosen)
        found = made(text, **call)
    torch.testing.assert_close(found, wanted, rtol=0, atol=2e-5)
    assert calls == (0 if name.startswith("another") else 2), "not chosen"


LENGTHS = [257 + 23 * step for step in range(20)]


def attend_compiled(length):
    """A window, a table of distances and a cap, as two layers of a model have them."""
    draw = torch.Generator().manual_seed(length)
    q, k, v = (torch.randn(B, H, length, C, generator=draw) for _ in range(3))
    place = positions(length)
    bias = bias_of_distance(create("position", "alibi", heads=H), place, place)
    mask = Mask(causal=True, allowed=within(place, place, 20, causal=True))
    call = {"mask": mask, "bias": bias, "cap": 3.0}
    for _ in range(2):
        found = _inner_products.inner_product_attention(q, k, v, scale=C**-0.5, **call)
    torch.testing.assert_close(found, reference(q, k, v, call), rtol=0, atol=1e-5)


@pytest.mark.nightly
def test_it_is_compiled_once_for_all_lengths(monkeypatch):
    """By the compiler for CPUs, which makes a kernel of its own of the same functions."""
    monkeypatch.setattr(kernels, "flex_attention_applies", lambda *given: True)
    made = _flex.library(compiled=True)
    monkeypatch.setattr(_flex, "library", lambda compiled: made)
    torch.compiler.reset()
    counts, before = list[int](), torch._dynamo.utils.counters["stats"]["unique_graphs"]
    with torch.no_grad():
        for length in LENGTHS:
            attend_compiled(length)
            counts.append(torch._dynamo.utils.counters["stats"]["unique_graphs"] - before)
    torch.compiler.reset()
    assert counts == [2] * len(LENGTHS), f"compiled again for other lengths: {counts}"


def test_the_switch_takes_0_and_1(monkeypatch):
    on_gpu = torch.empty(0)
    monkeypatch.setattr(torch.Tensor, "is_cuda", True)
    for chosen, wanted in (("0", False), ("1", True)):
        monkeypatch.setenv(kernels.VARIABLE, chosen)
        assert kernels.flex_attention_applies(on_gpu) is wanted
        with adapters.shapes_alone():
            assert not kernels.flex_attention_applies(on_gpu, torch.empty(0, device=GPU)), "no data"
    monkeypatch.undo()
    assert not kernels.flex_attention_applies(torch.empty(0)), "on a CPU"
