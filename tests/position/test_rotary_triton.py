"""The kernel of rotary position in Triton turns queries and keys as the plain path does, and is
tried in Triton's interpreter and compiler, which need no GPU.

    TRITON_INTERPRET=1 pytest -m nightly tests/position/test_rotary_triton.py
"""

import pytest
import torch
from torch.testing import assert_close

from tests.in_triton import compile_for_cuda, needs_interpreter
from tfzoo.base import kernels, rotation
from tfzoo.base.rotation import Rotation

SIZES = [  # b, n, heads, kv_heads, width of a head, rotated channels, texts of the angles
    (2, 5, 3, 3, 8, 8, 1),
    (3, 7, 4, 2, 10, 6, 3),
    (1, 1, 1, 1, 2, 2, 1),
    (2, 3, 2, 5, 70, 66, 1),
    (2, 4, 3, 1, 17, 14, 2),
]


@pytest.fixture
def as_on_cuda(monkeypatch):
    needs_interpreter()
    monkeypatch.setattr(kernels, "triton_applies", lambda *inputs: True)
    monkeypatch.setattr(Rotation, "__call__", lambda *given: pytest.fail("the plain path"))


def turn(x, turned):
    """By the formula, in float64."""
    pairs, x = turned.cos.shape[-1], x.double()
    cos, sin = turned.cos.double(), turned.sin.double()
    first = slice(pairs) if turned.halves else slice(0, 2 * pairs, 2)
    second = slice(pairs, 2 * pairs) if turned.halves else slice(1, 2 * pairs, 2)
    out = x.clone()
    out[..., first] = x[..., first] * cos - x[..., second] * sin
    out[..., second] = x[..., second] * cos + x[..., first] * sin
    return out


def drawn(sizes, dtype, apart, far=100.0):
    """Queries and keys as projections give them, or heads apart in memory, and angles."""
    b, n, heads, kv_heads, width, rotated, texts = sizes
    draw = torch.Generator().manual_seed(0)
    found = []
    for count in (heads, kv_heads):
        x = torch.randn(b, n, 2 * count, width, generator=draw, dtype=torch.float64).to(dtype)
        x = x[:, :, :count].transpose(1, 2)  # a part of a larger product
        found.append((x.contiguous() if apart else x).detach().requires_grad_())
    kind = torch.promote_types(dtype, torch.float32)
    angles = far * torch.rand(texts, 1, n, rotated // 2, generator=draw, dtype=torch.float64)
    return found, angles.to(kind)


@pytest.mark.nightly
@pytest.mark.usefixtures("as_on_cuda")
@pytest.mark.parametrize("halves", [True, False])
@pytest.mark.parametrize("sizes", SIZES)
def test_values_and_gradients(sizes, halves):
    for dtype, limit in ((torch.float64, 1e-12), (torch.float32, 1e-5), (torch.bfloat16, 2e-2)):
        for apart, scale in ((False, 1.0), (True, 1e4)):
            given, angles = drawn(sizes, dtype, apart)
            given = [(scale * x).detach().requires_grad_() for x in given]
            turned = Rotation(angles.cos(), angles.sin(), halves)
            found = turned.both(*given)
            wanted = [turn(x, turned) for x in given]
            slopes = [torch.randn_like(y) for y in wanted]
            grads = torch.autograd.grad(found, given, [s.to(dtype) for s in slopes])
            exact = torch.autograd.grad(wanted, given, slopes)
            for x, y in zip((*found, *grads), (*wanted, *exact), strict=True):
                assert x.dtype == dtype
                size = max(1.0, float(y.detach().abs().max()))
                assert_close(x.double(), y.double(), atol=limit * size, rtol=0.0)


@pytest.mark.nightly
@pytest.mark.usefixtures("as_on_cuda")
@pytest.mark.parametrize("halves", [True, False])
def test_derivatives(halves):
    """Of both outputs, of one alone, and of a sum, whose gradients share one number."""
    given, angles = drawn((1, 2, 1, 1, 3, 2, 1), torch.float64, False)
    turned = Rotation(angles.cos(), angles.sin(), halves)
    assert torch.autograd.gradcheck(turned.both, given)
    assert torch.autograd.gradgradcheck(turned.both, given)
    q, k = turned.both(*given)
    for one, x in zip((q, k), given, strict=True):
        (slope,) = torch.autograd.grad(one.sum(), x, retain_graph=True)
        (wanted,) = torch.autograd.grad(turn(x, turned).sum(), x)
        assert_close(slope, wanted, atol=1e-12, rtol=0.0)


@pytest.mark.nightly
def test_the_compiler_for_cuda_takes_the_kernel(tmp_path):
    cases = []
    for kind in ("*fp32", "*bf16"):
        types = dict.fromkeys(("q", "k", "of_q", "of_k"), kind) | {"cos": "*fp32", "sin": "*fp32"}
        for halves, rest, one in ((True, 0, {}), (False, 16, {"n": 1, "kv_heads": 1, "angles": 0})):
            blocks = {"halves": halves, "block_h": 8, "block_c": 32, "rest": rest}
            cases.append(("rotate_kernel", types, blocks | one))
    compile_for_cuda("tfzoo.base._rotation_triton", cases, tmp_path)


def test_what_it_is_chosen_for(monkeypatch):
    """Off CUDA, and for queries and keys of two dtypes, each is rotated by itself."""
    called = []
    monkeypatch.setattr(Rotation, "__call__", lambda self, x: called.append(x))
    (q, k), angles = drawn(SIZES[0], torch.float32, False)
    turned = Rotation(angles.cos(), angles.sin())
    turned.both(q, k)
    monkeypatch.setattr(rotation.kernels, "triton_applies", lambda *inputs: True)
    turned.both(q, k.double())
    Rotation(turned.cos.requires_grad_(), turned.sin).both(q, k)
    assert len(called) == 6
