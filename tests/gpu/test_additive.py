"""The kernels of additive attention in Triton are held to the formula on a GPU, and keep no tensor
of all pairs.
"""

import pytest
import torch

from tests.attention.additive_cases import B, E, H, Q, inputs, masks, reference
from tfzoo.base.registry import create
from tfzoo.masks import Mask

pytest.importorskip("triton", reason="needs the extra triton")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]
MASKS = [name for name, mask in masks().items() if mask.allowed is None]


def moved(mask):
    return Mask(mask.causal, None if mask.keys is None else mask.keys.cuda(), mask.start)


@pytest.mark.parametrize("name", MASKS)
def test_forward_and_backward_are_the_formula_s(name):
    from tfzoo.attention._additive_triton import triton_attention

    wide = inputs()
    given = [x.detach().float().cuda().requires_grad_() for x in wide]
    mask = masks()[name]
    wanted, slope = reference(*wide, mask), torch.randn(B, H, Q, E).double()
    for _ in range(2):  # the same from run to run
        found = triton_attention(*given, moved(mask))
        results = [found, *torch.autograd.grad(found, given, slope.float().cuda())]
    again = triton_attention(*given, moved(mask))
    assert torch.equal(found, again)
    exact = [wanted, *torch.autograd.grad(wanted, wide, slope)]
    for one, other in zip(results, exact, strict=True):
        size = max(1.0, float(other.detach().abs().max()))
        torch.testing.assert_close(one.double().cpu(), other, atol=1e-5 * size, rtol=0.0)


def test_memory_does_not_grow_with_pairs():
    """At 8,192 tokens, the scores of one head would take 256 MiB."""
    n = 8192
    attention = create("attention", "additive", heads=1, head_dim=16).cuda()
    q, k, v = (torch.randn(1, 1, n, 16, device="cuda", requires_grad=True) for _ in range(3))
    for _ in range(2):  # the first call makes the workspace of matrix products
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        attention(q, k, v, mask=Mask(causal=True)).sum().backward()
    assert torch.cuda.max_memory_allocated() - before < n * n
