"""Norms are held to PyTorch's own and to Llama's; statistics see real tokens only."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from tests import forked
from tests.daily import sampled
from tests.golden import load
from tfzoo.base.registry import Spec, create, registry
from tfzoo.contracts import Norm

NAMES = registry("norm").names()
DIM = 16


def made(spec: Spec, dim: int = DIM) -> Norm:
    torch.manual_seed(0)
    norm: Norm = create("norm", spec, dim=dim)
    for parameter in norm.parameters():
        nn.init.normal_(parameter)
    return norm.double()


def text(dim: int = DIM) -> tuple[Tensor, Tensor]:
    valid = torch.arange(7) < torch.tensor([[7], [4], [2]])
    return (torch.randn(3, 7, dim).double() * 2 + 1).requires_grad_(), valid


def same_with_gradients(
    got: Tensor, wanted: Tensor, pairs: list[tuple[Tensor, Tensor]], limit: float = 1e-9
) -> None:
    assert_close(got, wanted, atol=limit, rtol=limit)
    slope = torch.randn(got.shape).double()
    ours = torch.autograd.grad(got, [one for one, _ in pairs], slope, retain_graph=True)
    theirs = torch.autograd.grad(wanted, [other for _, other in pairs], slope)
    for one, other in zip(ours, theirs, strict=True):
        assert_close(one, other, atol=limit, rtol=limit)


def test_layer_equals_torch() -> None:
    norm, peer, (x, _) = made("layer"), nn.LayerNorm(DIM).double(), text()
    peer.load_state_dict(norm.state_dict())
    same_with_gradients(
        norm(x), peer(x), [(x, x), (norm.weight, peer.weight), (norm.bias, peer.bias)]
    )


def test_layer_without_bias_equals_torch() -> None:
    norm, peer = made({"name": "layer", "bias": False}), nn.LayerNorm(DIM, bias=False).double()
    x, _ = text()
    assert list(norm.state_dict()) == ["weight"]
    peer.load_state_dict(norm.state_dict())
    same_with_gradients(norm(x), peer(x), [(x, x), (norm.weight, peer.weight)])


def test_rms_equals_torch() -> None:
    norm, peer, (x, _) = made("rms"), nn.RMSNorm(DIM, eps=1e-6).double(), text()
    peer.load_state_dict(norm.state_dict())
    same_with_gradients(norm(x), peer(x), [(x, x), (norm.weight, peer.weight)])
    strided = x.detach().transpose(0, 1).requires_grad_()
    same_with_gradients(
        norm(strided), peer(strided), [(strided, strided), (norm.weight, peer.weight)]
    )


def test_rms_equals_llama() -> None:
    """Llama computes in fp32 whatever comes in."""
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    norm, peer, (x, _) = made("rms"), LlamaRMSNorm(DIM, eps=1e-6).double(), text()
    peer.load_state_dict(norm.state_dict())
    same_with_gradients(norm(x), peer(x), [(x, x), (norm.weight, peer.weight)], limit=2e-5)


def test_centred_rms_equals_gemma() -> None:
    """Gemma computes in fp32 whatever comes in."""
    from transformers.models.gemma2.modeling_gemma2 import Gemma2RMSNorm

    spec = {"name": "rms", "centred": True}
    norm, peer, (x, _) = made(spec), Gemma2RMSNorm(DIM, eps=1e-6).double(), text()
    peer.load_state_dict(norm.state_dict())
    same_with_gradients(norm(x), peer(x), [(x, x), (norm.weight, peer.weight)], limit=2e-5)
    fresh, plain = create("norm", spec, dim=DIM).double(), create("norm", "rms", dim=DIM).double()
    assert not fresh.weight.any()
    assert torch.equal(fresh(x), plain(x))


def test_scale_is_one_length_times_the_direction() -> None:
    """Nguyen and Salazar's code: ``g * x / |x|`` (their eps of 1e-5 limits ``|x|`` from below)."""
    norm, (x, _) = made("scale"), text()
    same_with_gradients(
        norm(x), norm.g * nn.functional.normalize(x, dim=-1), [(x, x), (norm.g, norm.g)], limit=1e-6
    )
    norm.eps = 1e-16  # the rest of the difference is eps
    same_with_gradients(
        norm(x), norm.g * nn.functional.normalize(x, dim=-1), [(x, x), (norm.g, norm.g)]
    )
    assert_close(create("norm", "scale", dim=DIM).g, torch.tensor([DIM**0.5]))


def test_dyt_is_a_tanh_with_trained_width_and_height() -> None:
    norm, (x, _) = made("dyt"), text()
    formula = norm.weight * (norm.alpha * x).tanh() + norm.bias
    pairs = [(one, one) for one in (x, norm.alpha, norm.weight, norm.bias)]
    same_with_gradients(norm(x), formula, pairs)
    assert create("norm", "dyt", dim=DIM).alpha.item() == 0.5


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", ["batch", "instance"])
@pytest.mark.parametrize("junk", [float("nan"), float("inf")])
def test_padding_that_is_no_number_reaches_no_real_token(
    name: str, junk: float, training: bool
) -> None:
    """Neither its output, nor its gradient, nor those of the parameters, nor the statistics."""
    (x, valid), found = text(), []
    for padding in (0.0, junk):
        norm, slope = made(name).train(training), torch.ones(DIM).double().cumsum(0)
        given = torch.where(valid[..., None], x.detach(), padding).requires_grad_()
        out = norm(given, valid)
        grads = torch.autograd.grad((out * slope)[valid].sum(), [given, *norm.parameters()])
        found.append([out, *grads, *norm.buffers()])
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("name", ["batch", "instance"])
def test_padding_has_no_say(name: str) -> None:
    """The real tokens alone, in PyTorch's own norm, give the same; and what stands at padded places
    does not count.
    """
    norm, (x, valid) = made(name), text()
    norm.eval() if name == "instance" else norm.train()
    got = norm(x, valid)
    if name == "batch":
        peer = nn.BatchNorm1d(DIM).double()
        peer.load_state_dict(norm.state_dict() | {"num_batches_tracked": torch.tensor(0)})
        peer.reset_running_stats()
        wanted = peer(x[valid])
        assert_close(norm.running_mean, peer.running_mean)
        assert_close(norm.running_var, peer.running_var)
    else:
        alone = [row[real].T[None] for row, real in zip(x, valid, strict=True)]
        wanted = torch.cat(
            [
                nn.functional.instance_norm(one, weight=norm.weight, bias=norm.bias)[0].T
                for one in alone
            ]
        )
        peer = norm
    same_with_gradients(
        got[valid], wanted, [(x, x), (norm.weight, peer.weight), (norm.bias, peer.bias)]
    )
    assert not got[~valid].any()
    noisy = torch.where(valid[..., None], x, 1e3)
    assert torch.equal(made(name).train()(noisy, valid)[valid], made(name).train()(x, valid)[valid])


def test_batch_outside_training_uses_what_it_has_seen() -> None:
    norm, peer, (x, _) = made("batch"), nn.BatchNorm1d(DIM).double(), text()
    for _ in range(3):
        norm(x * 2)
    peer.load_state_dict(norm.state_dict() | {"num_batches_tracked": torch.tensor(3)})
    assert_close(norm.eval()(x), peer.eval()(x.mT).mT)


@pytest.mark.parametrize("real", [0, 1])
def test_batch_does_not_learn_from_under_two_tokens(real: int) -> None:
    norm, (x, _) = made("batch"), text()
    valid = torch.zeros(3, 7, dtype=torch.bool)
    valid[0, :real] = True
    out = norm(x, valid)
    assert_close(norm.running_mean, torch.zeros(DIM).double())
    assert_close(norm.running_var, torch.ones(DIM).double())
    assert out.isfinite().all()
    assert torch.autograd.grad(out.sum(), x)[0].isfinite().all()


def share(rank: int, world: int, store: str) -> list[Tensor]:
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=world
    )
    norm, (x, valid) = made("batch"), text()
    rows = slice(0, 1) if rank == 0 else slice(1, 3)  # unequal shares
    mine = x.detach()[rows].requires_grad_()
    out = norm(mine, valid[rows])
    grads = torch.autograd.grad(out.square().sum(), [mine, norm.weight])
    torch.distributed.destroy_process_group()
    return [out.detach(), *grads, norm.running_mean, norm.running_var]


@forked.requires_fork
def test_batch_counts_all_devices(tmp_path: Path) -> None:
    first, second = forked.together(share, [(rank, 2, str(tmp_path / "store")) for rank in (0, 1)])
    norm, (x, valid) = made("batch"), text()
    out = norm(x, valid)
    grad, of_weight = torch.autograd.grad(out.square().sum(), [x, norm.weight])
    assert_close(torch.cat((first[0], second[0])), out)
    assert_close(torch.cat((first[1], second[1])), grad, atol=1e-9, rtol=1e-9)
    assert_close(first[2] + second[2], of_weight, atol=1e-9, rtol=1e-9)
    for ours, all_at_once in zip(first[3:], (norm.running_mean, norm.running_var), strict=True):
        assert_close(ours, all_at_once)


@pytest.mark.parametrize("name", sampled(NAMES, ["batch", "rms"]))
def test_gradients_of_a_compiled_norm_are_right(name: str) -> None:
    """By day of those that count or have a kernel; a contract compiles all of them."""
    x, valid = text()
    got = torch.compile(made(name), fullgraph=True, backend="aot_eager")(x, valid)
    wanted = made(name)(x, valid)
    assert_close(got, wanted, atol=1e-9, rtol=1e-9)
    slope = torch.randn(got.shape).double()
    ours, theirs = (torch.autograd.grad(one, x, slope)[0] for one in (got, wanted))
    assert_close(ours, theirs, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_bf16_comes_back_as_bf16_with_statistics_in_fp32(name: str, training: bool) -> None:
    x, valid = text()
    half = (x.detach() + 30.0).bfloat16()  # a large mean: squares in bf16 would be all wrong
    with torch.autocast("cpu", torch.bfloat16):
        got = made(name).float().train(training)(half, valid)
    assert got.dtype == torch.bfloat16
    wanted = made(name).train(training)(half.double(), valid)
    rounding = torch.finfo(torch.bfloat16).eps / 2
    assert_close(got.double(), wanted, atol=1e-4, rtol=rounding)


RECORDED = {
    "layernorm": "layer",
    "layernorm_large_mean": "layer",
    "rmsnorm_llama": "rms",
    "rmsnorm_llama_tiny_input": "rms",
    "rmsnorm_torch_eps": "rms",
    "instancenorm_valid_tokens": "instance",
}


@pytest.mark.parametrize(("case_id", "name"), list(RECORDED.items()))
def test_agrees_with_recorded_peers(case_id: str, name: str) -> None:
    """In float64, but for Llama, which computes in fp32; gradients were recorded in fp32."""
    case, arrays = load(f"norm/{case_id}")
    norm = create("norm", {"name": name, "eps": case["config"]["eps"]}, dim=case["config"]["dim"])
    norm.load_state_dict({key: arrays[f"param.{key}"] for key in norm.state_dict()})
    norm.double()
    x = arrays["in.x"].double().requires_grad_()
    out = norm(x, arrays.get("mask.key_valid"))
    assert_close(out, arrays["out64.y"], atol=1e-6 if "llama" in case_id else 1e-9, rtol=0.0)
    grads = torch.autograd.grad(out, [x, *norm.parameters()], arrays["cot.y"].double())
    names = ["grad.x", *(f"gradp.{key}" for key, _ in norm.named_parameters())]
    limit = case["tolerance"]["float32"]
    for got, key in zip(grads, names, strict=True):
        largest = float(arrays[key].abs().max())
        atol = 2 * limit["atol"] + max(limit["rtol"], 2e-6) * largest
        assert_close(got, arrays[key].double(), atol=atol, rtol=2 * limit["rtol"])


@pytest.mark.parametrize("case_id", ["layernorm_bf16", "rmsnorm_llama_bf16"])
def test_bf16_agrees_with_recorded_peers(case_id: str) -> None:
    case, arrays = load(f"norm/{case_id}")
    norm = create(
        "norm",
        {"name": "layer" if "layer" in case_id else "rms", "eps": case["config"]["eps"]},
        dim=case["config"]["dim"],
    )
    norm.load_state_dict({key: arrays[f"param.{key}"].float() for key in norm.state_dict()})
    out = norm(arrays["in.x"])
    assert out.dtype == torch.bfloat16
    assert_close(out.float(), arrays["ref32.y"].float(), **case["tolerance"]["bfloat16"])


def test_batch_agrees_with_recorded_steps() -> None:
    case, arrays = load("norm/batchnorm_valid_tokens")
    norm = create("norm", "batch", dim=case["config"]["dim"])
    before = {f"running_{key}": arrays[f"buffer_before.running_{key}"] for key in ("mean", "var")}
    norm.load_state_dict(before | {"weight": arrays["param.weight"], "bias": arrays["param.bias"]})
    valid = arrays["mask.key_valid"]
    step = 0
    while f"in.x{step}" in arrays:
        x = arrays[f"in.x{step}"].requires_grad_()
        out = norm(x, valid)
        assert_close(out[valid], arrays[f"out.y{step}"][valid], atol=1e-5, rtol=1e-5)
        (grad,) = torch.autograd.grad(out, x, arrays[f"cot.y{step}"] * valid[..., None])
        assert_close(grad[valid], arrays[f"grad.x{step}"][valid], atol=1e-5, rtol=1e-4)
        assert_close(
            norm.running_mean, arrays[f"buffer_after{step}.running_mean"], atol=1e-5, rtol=1e-5
        )
        assert_close(
            norm.running_var, arrays[f"buffer_after{step}.running_var"], atol=1e-5, rtol=1e-5
        )
        step += 1
    assert step > 1
