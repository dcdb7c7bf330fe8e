"""The kernels of the loss and of rotary positions compute on a GPU what PyTorch's operations do,
within twice the error that those make.
"""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tfzoo.base import kernels
from tfzoo.base.rotation import Rotation
from tfzoo.learning.cross_entropy import cross_entropy

pytest.importorskip("triton", reason="needs the extra triton")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]
Compute = Callable[..., tuple[Tensor, ...]]


def loss(hidden, weight):
    target = torch.arange(len(hidden), device=hidden.device) % len(weight)
    return (cross_entropy(hidden, weight, target, 0.1, 0)[0],)


def capped_loss(hidden, weight):
    target = torch.arange(len(hidden), device=hidden.device) % len(weight)
    return (cross_entropy(hidden, weight, target, 0.1, None, 5.0)[0],)


def rotary(q, k):
    angles = torch.arange(300, device=q.device, dtype=torch.float32)[:, None] * 0.7 ** torch.arange(
        12, device=q.device
    )
    for_all = angles[None, None]
    turned = [Rotation(for_all.cos(), for_all.sin(), halves).both(q, k) for halves in (True, False)]
    return turned[0] + turned[1]


CASES: dict[str, tuple[Compute, tuple[int, ...], tuple[int, ...]]] = {
    "loss": (loss, (700, 64), (5000, 64)),
    "capped loss": (capped_loss, (700, 64), (5000, 64)),
    "rotary": (rotary, (2, 4, 300, 32), (2, 2, 300, 32)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_errors_are_at_most_twice_those_of_pytorch(name, dtype, monkeypatch):
    compute, *shapes = CASES[name]
    draw = torch.Generator().manual_seed(0)
    given = [torch.randn(shape, generator=draw).to("cuda", dtype) for shape in shapes]
    results = []
    for kind, setting in ((torch.float64, "0"), (dtype, "0"), (dtype, "1"), (dtype, "1")):
        monkeypatch.setenv(kernels.VARIABLE, setting)
        inputs = [x.to(kind).requires_grad_() for x in given]
        found = compute(*inputs)
        places = [torch.arange(one.numel(), device=one.device).view_as(one) for one in found]
        slopes = [(1 + place % 7).to(one.dtype) for place, one in zip(places, found, strict=True)]
        gradients = torch.autograd.grad(found, inputs, slopes)
        results.append([one.detach() for one in (*found, *gradients)])
    for exact, theirs, ours, again in zip(*results, strict=True):
        assert torch.equal(ours, again), "the same from run to run"
        size = float(exact.norm())
        bound = max(2 * float((theirs - exact).norm()), 1e-6 * size)
        assert float((ours - exact).norm()) <= bound
