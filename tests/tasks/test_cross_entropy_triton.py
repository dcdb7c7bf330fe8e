"""The kernel of the cross entropy in Triton computes what the plain path does, and is tried in
Triton's interpreter and compiler, which need no GPU.

    TRITON_INTERPRET=1 pytest -m nightly tests/tasks/test_cross_entropy_triton.py
"""

import pytest
import torch

from tests.in_triton import compile_for_cuda, needs_interpreter
from tests.tasks.test_cross_entropy import drawn, plain
from tfzoo.base import kernels
from tfzoo.learning import cross_entropy as module
from tfzoo.learning.cross_entropy import cross_entropy, plain_chunk

OPTIONS = [
    {"smoothing": smoothing, "other": 0.003 * bool(smoothing), "pad": pad, "cap": cap}
    for smoothing in (0.0, 0.1)
    for pad in (None, 0)
    for cap in (None, 3.0)
]
BOUND = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 1e-2}


@pytest.fixture
def triton_module(monkeypatch):
    """Classes in several blocks, of which the last is smaller."""
    needs_interpreter()
    from tfzoo.learning import _cross_entropy_triton

    monkeypatch.setattr(_cross_entropy_triton, "BLOCK", 64)
    return _cross_entropy_triton


def agree(triton_module, logits, target, **options):
    """With the plain path in float64, also where the gradient goes elsewhere, and where there is
    none.
    """
    wide = logits.to(torch.float64, copy=True)
    exact = torch.empty_like(wide)
    wanted = plain_chunk(wide, target, exact, True, **options)
    apart = torch.full_like(logits, 7.0)
    kept = logits.clone()
    found = triton_module.triton_chunk(logits, target, apart, True, **options)
    assert torch.equal(logits, kept)
    assert found[0].dtype == torch.promote_types(logits.dtype, torch.float32)
    again = triton_module.triton_chunk(logits, target, logits, False, **options)
    assert torch.equal(logits, kept)
    in_place = triton_module.triton_chunk(logits, target, logits, True, **options)
    assert torch.equal(logits, apart)
    for one, two, three, other in zip(found, again, in_place, wanted, strict=True):
        assert torch.equal(one, two)
        assert torch.equal(one, three)
        size = max(1.0, float(kept.double().abs().max()))  # log Z and a logit are subtracted
        bound = BOUND[one.dtype] * size
        torch.testing.assert_close(one.double(), other, atol=bound, rtol=0.0)
    torch.testing.assert_close(apart.double(), exact, atol=BOUND[logits.dtype], rtol=0.0)


@pytest.mark.nightly
@pytest.mark.parametrize("classes", [1, 2, 37, 64, 65, 300])
@pytest.mark.parametrize("dtype", BOUND, ids=str)
def test_loss_and_gradient_of_a_chunk(dtype, classes, triton_module):
    draw = torch.Generator().manual_seed(0)
    for options in OPTIONS:
        logits = (4.0 * torch.randn(5, classes, generator=draw, dtype=torch.float64)).to(dtype)
        target = torch.randint(classes, (5,), generator=draw)
        agree(triton_module, logits, target, **options)


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:overflow encountered in exp")  # of a capped logit: 1/inf is 0
@pytest.mark.parametrize("dtype", BOUND, ids=str)
def test_extreme_logits(dtype, triton_module):
    """Flat, far from zero, wide, and some of probability 0, whole blocks of them too."""
    draw = torch.Generator().manual_seed(0)
    target = torch.tensor([1, 69, 3])
    for scale, shift in ((0.0, 0.0), (1.0, 1000.0), (1.0, -1000.0), (1e4, 0.0)):
        drawn = torch.randn(3, 70, generator=draw, dtype=torch.float64)
        agree(triton_module, (scale * drawn + shift).to(dtype), target, **OPTIONS[-2])
        agree(triton_module, (scale * drawn + shift).to(dtype), target, **OPTIONS[-1])
    for hidden in (slice(5, 60), slice(64, 69), slice(4, 69)):
        logits = torch.randn(3, 70, generator=draw, dtype=torch.float64).to(dtype)
        logits[:, hidden] = float("-inf")
        agree(triton_module, logits, target, **OPTIONS[0])


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:invalid value encountered")
def test_what_is_not_finite_is_not_hidden(triton_module):
    for wrong in (float("nan"), float("inf")):
        for place in (0, 66):
            logits = torch.zeros(2, 70)
            logits[0, place] = wrong
            nll, loss = triton_module.triton_chunk(
                logits, torch.tensor([1, 1]), logits, True, 0.1, 0.01, None, None
            )
            assert nll.isnan().tolist() == loss.isnan().tolist() == [True, False]
            assert logits[0].isnan().any()
            assert not logits[1].isnan().any()


@pytest.mark.nightly
@pytest.mark.parametrize("cap", [None, 2.0])
@pytest.mark.parametrize("tokens", [1, 9])
def test_the_loss_of_hidden_states_and_its_gradients(tokens, cap, triton_module, monkeypatch):
    """As on CUDA, in chunks of 4 tokens; second derivatives too."""
    monkeypatch.setattr(kernels, "apply_to", lambda *given: True)
    monkeypatch.setattr(module, "chunk_rows", lambda device, v: 4)
    monkeypatch.setattr(module, "plain_chunk", None)
    hidden, weight, target = drawn(tokens)
    wanted = plain(hidden, weight, target, 0.1, 0, cap)
    exact = wanted, *torch.autograd.grad(wanted, (hidden, weight), retain_graph=True)
    given = [x.detach().float().requires_grad_() for x in (hidden, weight)]
    loss, _ = cross_entropy(*given, target, 0.1, pad=0, cap=cap)
    found = loss, *torch.autograd.grad(loss, given, retain_graph=True)
    for one, other in zip(found, exact, strict=True):
        torch.testing.assert_close(one, other.float(), rtol=1e-5, atol=1e-5)
    second = []
    for value, (h, w) in ((loss, given), (wanted, (hidden, weight))):
        (slope,) = torch.autograd.grad(value, h, create_graph=True)
        second.append(torch.autograd.grad(slope.square().sum(), w)[0].float())
    torch.testing.assert_close(*second, rtol=1e-4, atol=1e-4)
    with torch.no_grad():
        torch.testing.assert_close(cross_entropy(*given, target, 0.1, 0, cap)[0], loss)


@pytest.mark.nightly
def test_the_compiler_for_cuda_takes_the_kernel(tmp_path):
    cases = []
    for kind, out in (("*fp32", "*fp32"), ("*fp32", "*bf16"), ("*bf16", "*bf16")):
        types = {"logits": kind, "out": out, "target": "*i64", "nll": "*fp32", "loss": "*fp32"}
        cases += [
            ("chunk_kernel", types, {**options, "train": True, "block": 4096})
            for options in (OPTIONS[0], OPTIONS[-1])
        ]
    compile_for_cuda("tfzoo.learning._cross_entropy_triton", cases, tmp_path)


def test_what_it_is_chosen_for(monkeypatch):
    given = torch.zeros(2, 3), torch.zeros(5, 3)
    assert module.chunk_function(*given) is plain_chunk, "on a CPU"
    monkeypatch.setattr(kernels, "apply_to", lambda *given: True)
    monkeypatch.setattr(kernels, "has_triton", lambda: True)
    assert kernels.triton_applies(*given)
    assert not kernels.triton_applies(*(x.double() for x in given))
    assert not kernels.triton_applies(given[0][:0], given[1])
    monkeypatch.setattr(kernels, "has_triton", lambda: False)
    assert module.chunk_function(*given) is plain_chunk, "not installed"
