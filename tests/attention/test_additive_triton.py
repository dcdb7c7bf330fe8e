"""The kernels of additive attention in Triton compute what the plain formula does: in Triton's
interpreter, which needs no GPU. They also go through its compiler, which needs none either.

    TRITON_INTERPRET=1 pytest -m nightly tests/attention/test_additive_triton.py
"""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from tests.attention.additive_cases import B, C, H, K, Q, agrees, inputs, masks, reference
from tests.in_triton import compile_for_cuda, needs_interpreter
from tfzoo.attention.additive import triton_applies
from tfzoo.base import kernels
from tfzoo.base.registry import create
from tfzoo.masks import Mask

MASKS = {name: mask for name, mask in masks().items() if mask.allowed is None}


@pytest.fixture
def attend():
    needs_interpreter()
    from tfzoo.attention._additive_triton import triton_attention

    return triton_attention


@pytest.mark.nightly
@pytest.mark.parametrize("name", MASKS)
def test_any_mask_it_takes(name, attend):
    """Of lengths that are no multiple of a block."""
    mask = MASKS[name]
    for dtype, limit in ((torch.float64, 1e-9), (torch.float32, 1e-5)):
        given = inputs(dtype)
        found = attend(*given, mask)
        agrees(found, reference(*given, mask), given, limit)
        empty = mask.fully_masked(Q, K, found.device)
        if empty is not None:
            assert not found.masked_select(empty).any()


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:overflow encountered in exp")  # 1 / (1 + inf) is 0, as meant
@pytest.mark.parametrize(("scale", "shift"), [(1e-4, 0.0), (20.0, 30.0), (1.0, 1e3), (1e4, 0.0)])
def test_extreme_inputs(scale, shift, attend):
    """Flat scores, and tanhs that are flat, where queries and keys lie far from zero."""
    mask = Mask(causal=True)
    for dtype, limit in ((torch.float64, 1e-9), (torch.float32, 1e-4)):
        a, b, v, values = inputs(dtype, scale)
        given = [(a + shift).detach(), (b - shift).detach(), (v * 3.0).detach(), values.detach()]
        for x in given:
            x.requires_grad_()
        wide = [x.detach().double().requires_grad_() for x in given]
        found, wanted = attend(*given, mask), reference(*wide, mask)
        slope = torch.randn(found.shape, generator=torch.Generator().manual_seed(2)).double()
        for x, y in zip(
            (found, *torch.autograd.grad(found, given, slope.to(dtype))),
            (wanted, *torch.autograd.grad(wanted, wide, slope)),
            strict=True,
        ):
            size = max(1.0, float(y.detach().abs().max()))
            torch.testing.assert_close(x.double(), y, atol=limit * size, rtol=0.0)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("q", "k", "hidden", "width"),
    [(1, 1, 1, 1), (1, 65, 7, 70), (130, 3, 2, 16), (64, 64, 16, 300)],
)
def test_any_sizes(q, k, hidden, width, attend):
    draw = torch.Generator().manual_seed(0)
    shapes = (1, 1, q, hidden), (1, 1, k, hidden), (1, hidden), (1, 1, k, width)
    given = [torch.randn(s, generator=draw).double().requires_grad_() for s in shapes]
    for mask in (Mask(), Mask(causal=True)):
        agrees(attend(*given, mask), reference(*given, mask), given, 1e-9)


@pytest.mark.nightly
def test_bf16_inputs_keep_their_dtype_and_second_derivatives_are_right(attend):
    given = inputs(torch.bfloat16)
    found = attend(*given, Mask())
    assert found.dtype == torch.bfloat16
    grads = torch.autograd.grad(found.sum(), given)
    assert [x.dtype for x in grads] == [torch.bfloat16] * 4
    draw = torch.Generator().manual_seed(0)
    shapes = (2, 1, 3, 2), (2, 1, 4, 2), (1, 2), (2, 1, 4, 1)
    small = [torch.randn(s, generator=draw).double().requires_grad_() for s in shapes]
    mask = Mask(causal=True, keys=torch.tensor([[True] * 4, [False] * 4]))
    assert gradcheck(lambda *x: attend(*x, mask), small)
    assert gradgradcheck(lambda *x: attend(*x, mask), small)


@pytest.mark.nightly
def test_the_compiler_for_cuda_takes_the_kernels(tmp_path):
    sizes = "heads", "queries", "keys", "hidden", "width", "first"
    pointers = {"x", "y", "w", "values", "out", "norm", "grad", "delta", "of_x", "share", "of_y"}
    pointers |= {"x_rows", "y_rows", "pairs"}
    types = dict.fromkeys((*pointers, "of_values"), "*fp32") | {"real": "*i8"}
    blocks = {"causal": True, "block_q": 32, "block_k": 32, "block_e": 16}
    cases = [
        (kernel, types, blocks | more | {"padded": padded} | dict.fromkeys(constant, 1))
        for kernel, more in (
            ("forward_kernel", {}),
            ("queries_kernel", {"block_j": 16}),
            ("keys_kernel", {"block_j": 16}),
        )
        for padded, constant in ((True, ()), (False, sizes))  # sizes of one become constants
    ]
    compile_for_cuda("tfzoo.attention._additive_triton", cases, tmp_path)


def test_what_it_is_chosen_for(monkeypatch):
    given = [x.detach() for x in inputs(torch.float32)]
    open_mask = Mask(causal=True, keys=torch.ones(B, K, dtype=torch.bool))
    assert not triton_applies(*given, open_mask, 0.0), "on a CPU"
    monkeypatch.setattr(kernels, "apply_to", lambda *given: True)
    monkeypatch.setattr(kernels, "HAS_TRITON", True)
    assert triton_applies(*given, open_mask, 0.0)
    assert not triton_applies(*given, open_mask, 0.1), "it has no dropout"
    assert not triton_applies(*given, Mask(allowed=torch.ones(1, 1, Q, K).bool()), 0.0)
    assert not triton_applies(*(x.double() for x in given), open_mask, 0.0)
    assert not triton_applies(*(x[:0] if x.dim() > 2 else x for x in given), open_mask, 0.0)
    monkeypatch.setattr(kernels, "HAS_TRITON", False)
    assert not triton_applies(*given, open_mask, 0.0), "not installed"


@pytest.mark.nightly
def test_the_attention_calls_it(attend, monkeypatch):
    """As on CUDA, with a temperature."""
    attention = create("attention", "additive", heads=H, head_dim=C)
    torch.nn.init.normal_(attention.score)
    q, k, _, v = (x.detach() for x in inputs(torch.float32))
    call = {"mask": MASKS["causal"], "temperature": 0.5}
    wanted = attention(q, k, v, **call)
    monkeypatch.setattr(kernels, "apply_to", lambda *given: True)
    found = attention(q, k, v, **call)
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=0.0)
