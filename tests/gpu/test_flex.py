"""FlexAttention's kernels are held to the formula and keep no tensor of all pairs."""

import os

import pytest
import torch

from tests.attention.test_flex import RELATIVE, C, H, positions, reference
from tfzoo.base import kernels
from tfzoo.base.registry import create
from tfzoo.components.attention import _inner_products
from tfzoo.components.attention._flex import flex_is_faster
from tfzoo.masks import Mask
from tfzoo.models.positioned import bias_of_distance, within

N = 700
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]


def results(name, device, dtype):
    """The output and gradients: by the formula on a CPU, by FlexAttention on a GPU."""
    given = {"dim": 8, "heads": H, "head_dim": C, "max_length": N, "causal": True}
    torch.manual_seed(0)
    position = create("position", name, **given).to(device, dtype)
    draw = torch.Generator().manual_seed(1)
    inputs = [torch.randn(2, H, N, C, generator=draw).to(device, dtype) for _ in range(4)]
    q, k, v = (x.requires_grad_() for x in inputs[:3])
    place = positions(N).to(device)
    bias = bias_of_distance(position, place, place)
    keys = place < torch.tensor([[N], [N - 90]], device=device)
    mask = Mask(causal=True, keys=keys, allowed=within(place, place, 200, causal=True))
    call = {"mask": mask, "bias": bias, "cap": 3.0}
    if device == "cpu":
        out = reference(q, k, v, call)
    else:
        chosen = flex_is_faster(q, k, v, mask, bias, 3.0, 0.0)
        assert chosen is (os.environ.get(kernels.VARIABLE) != "0")
        out = _inner_products.inner_product_attention(q, k, v, scale=C**-0.5, **call)
    through = [q, k, v, *(x for x in position.parameters() if x.requires_grad)]
    found = [out, *torch.autograd.grad(out, through, inputs[3])]
    return [x.detach().double().cpu() for x in found]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", RELATIVE)
def test_errors_are_of_the_size_of_those_of_pytorch_s_other_operations(name, dtype, monkeypatch):
    ours, exact = results(name, "cuda", dtype), results(name, "cpu", torch.float64)
    monkeypatch.setenv(kernels.VARIABLE, "0")
    for found, plain, wanted in zip(ours, results(name, "cuda", dtype), exact, strict=True):
        # A kernel adds the gradients of a table up one after the other.
        least = max(4 * torch.finfo(dtype).eps, 1e-5) * float(wanted.norm())
        bound = max(2 * float((plain - wanted).norm()), least)
        assert float((found - wanted).norm()) <= bound


def test_memory_does_not_grow_with_pairs():
    """At 8,192 tokens, the scores of one head would take 256 MiB."""
    n = 8192
    q, k, v = (torch.randn(1, H, n, C, device="cuda", requires_grad=True) for _ in range(3))
    place = positions(n).cuda()
    call = {
        "mask": Mask(causal=True, allowed=within(place, place, 200, causal=True)),
        "bias": bias_of_distance(create("position", "alibi", heads=H), place, place),
    }
    for _ in range(2):  # the first call compiles
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        _inner_products.inner_product_attention(q, k, v, scale=C**-0.5, **call).sum().backward()
    assert torch.cuda.max_memory_allocated() - before < n * n
