"""Norms are held to PyTorch's own and to Llama's; statistics see real tokens only."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close
from transformers.models.gemma2 import modeling_gemma2
from transformers.models.llama import modeling_llama

from tests import forked
from tests.daily import sampled
from tests.exact import close
from tfzoo.base.registry import create, registry

NAMES = registry("norm").names()
DIM = 16


def made(spec, dim=DIM):
    torch.manual_seed(0)
    norm = create("norm", spec, dim=dim)
    for parameter in norm.parameters():
        nn.init.normal_(parameter)
    return norm.double()


def text(dim=DIM):
    valid = torch.arange(7) < torch.tensor([[7], [4], [2]])
    return (torch.randn(3, 7, dim).double() * 2 + 1).requires_grad_(), valid


def same_with_gradients(got, wanted, pairs, limit=1e-9):
    assert_close(got, wanted, atol=limit, rtol=limit)
    slope = torch.randn(got.shape).double()
    ours = torch.autograd.grad(got, [one for one, _ in pairs], slope, retain_graph=True)
    theirs = torch.autograd.grad(wanted, [other for _, other in pairs], slope)
    for one, other in zip(ours, theirs, strict=True):
        assert_close(one, other, atol=limit, rtol=limit)


@pytest.mark.parametrize(
    ("spec", "peer"),
    [
        ("layer", nn.LayerNorm(DIM)),
        ({"name": "layer", "bias": False}, nn.LayerNorm(DIM, bias=False)),
        ("rms", nn.RMSNorm(DIM, eps=1e-6)),
        ("rms", modeling_llama.LlamaRMSNorm(DIM, eps=1e-6)),
        ({"name": "rms", "centred": True}, modeling_gemma2.Gemma2RMSNorm(DIM, eps=1e-6)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_equals_the_norm_of_others(spec, peer):
    """Those of ``transformers`` compute in fp32 whatever comes in."""
    norm, limit = made(spec), 1e-9 if isinstance(peer, nn.LayerNorm | nn.RMSNorm) else 2e-5
    peer.double().load_state_dict(norm.state_dict())
    for x in (text()[0], text()[0].detach().transpose(0, 1).requires_grad_()):
        pairs = [(x, x), *zip(norm.parameters(), peer.parameters(), strict=True)]
        same_with_gradients(norm(x), peer(x), pairs, limit)


def test_a_centred_rms_norm_starts_as_a_plain_one():
    """As in Gemma's code, its weight is the difference from 1."""
    centred, plain = (
        create("norm", {"name": "rms", "centred": one}, dim=DIM) for one in (True, False)
    )
    x, _ = text()
    assert not centred.weight.any()
    assert torch.equal(centred.double()(x), plain.double()(x))


def test_scale_is_one_length_times_the_direction():
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


def test_dyt_is_a_tanh_with_trained_width_and_height():
    norm, (x, _) = made("dyt"), text()
    formula = norm.weight * (norm.alpha * x).tanh() + norm.bias
    pairs = [(one, one) for one in (x, norm.alpha, norm.weight, norm.bias)]
    same_with_gradients(norm(x), formula, pairs)
    assert create("norm", "dyt", dim=DIM).alpha.item() == 0.5


@pytest.mark.parametrize("name", ["batch", "instance"])
def test_padding_has_no_say(name):
    """The real tokens alone, in PyTorch's own norm, give the same."""
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


def share(rank, world, store):
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
def test_batch_counts_all_devices(tmp_path):
    first, second = forked.together(share, [(rank, 2, str(tmp_path / "store")) for rank in (0, 1)])
    norm, (x, valid) = made("batch"), text()
    out = norm(x, valid)
    grad, of_weight = torch.autograd.grad(out.square().sum(), [x, norm.weight])
    assert_close(torch.cat((first[0], second[0])), out)
    close(torch.cat((first[1], second[1])), grad)
    close(first[2] + second[2], of_weight)
    for ours, all_at_once in zip(first[3:], (norm.running_mean, norm.running_var), strict=True):
        assert_close(ours, all_at_once)


@pytest.mark.parametrize("name", sampled(NAMES, ["batch"]))
def test_gradients_of_a_compiled_norm_are_right(name):
    """By day of the one that counts; a contract compiles all of them."""
    x, valid = text()
    got = torch.compile(made(name), fullgraph=True, backend="aot_eager")(x, valid)
    wanted = made(name)(x, valid)
    close(got, wanted)
    slope = torch.randn(got.shape).double()
    ours, theirs = (torch.autograd.grad(one, x, slope)[0] for one in (got, wanted))
    close(ours, theirs)


def test_the_state_dict_holds_what_batch_has_seen():
    seen, other, (x, valid) = made("batch"), made("batch"), text()
    seen.train()(x, valid)
    other.load_state_dict(seen.state_dict())
    assert torch.equal(other.eval()(x, valid), seen.eval()(x, valid))
