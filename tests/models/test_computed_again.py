"""What the backward of a stack computes again in place of keeping it: the same gradients, fewer
bytes, and everybody else's hooks and checks as without it.
"""

from contextlib import contextmanager

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import tfzoo
from tfzoo.base.recomputed import OnlyLooks
from tfzoo.models import stack

ROWS, TOKENS, DIM, LAYERS = 3, 5, 16, 2
X = torch.randn(ROWS, TOKENS, DIM, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def encoder(residual="post", norm="layer", layers=LAYERS):
    torch.manual_seed(0)
    options = {"residual": residual, "norm": norm}
    return tfzoo.Encoder(DIM, heads=2, layers=layers, dropout=0.1, **options).double()


@contextmanager
def everything_kept(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(stack, "formulas_are_kept", lambda x: False)
        yield


def gradients(module, x, again):
    torch.manual_seed(1)
    wanted = [x, *module.parameters()]
    first = torch.autograd.grad(module(x).square().sum(), wanted, create_graph=again)
    if again:
        total = torch.stack([one.square().sum() for one in first]).sum()
        first = torch.autograd.grad(total, wanted, materialize_grads=True)
    return list(first)


def kept(module, x):
    """The bytes that the backward keeps beside parameters and the input."""
    known = {one.untyped_storage().data_ptr() for one in (*module.parameters(), x)}
    found = {}

    def look(one):
        if (where := one.untyped_storage().data_ptr()) not in known:
            found[where] = one

    with torch.autograd.graph.saved_tensors_hooks(OnlyLooks(look), lambda one: one):
        out = module(x)
    del out
    return sum(one.untyped_storage().nbytes() for one in found.values())


@pytest.mark.parametrize("again", [False, True], ids=["once", "twice"])
@pytest.mark.parametrize("norm", ["layer", "rms"])
@pytest.mark.parametrize("residual", ["pre", "post"])
def test_gradients_are_the_same_bits(residual, norm, again, monkeypatch):
    module, x = encoder(residual, norm), X.clone().requires_grad_()
    found = gradients(module, x, again)
    with everything_kept(monkeypatch):
        assert all(map(torch.equal, found, gradients(module, x, again)))


@pytest.mark.parametrize("residual", ["pre", "post"])
def test_outputs_of_norms_and_attention_are_not_kept(residual, monkeypatch):
    module, x = encoder(residual), X.clone().requires_grad_()
    found = kept(module, x)
    with everything_kept(monkeypatch):
        whole = kept(module, x)
    # of each layer two norms, which the next sublayer reads, and the attention; a last norm's
    # output is the stack's
    values = 3 * LAYERS if residual == "pre" else 3 * LAYERS - 1
    assert whole - found == values * X.nbytes


def test_a_graph_that_is_kept_gives_the_same_gradients_twice():
    module, x = encoder(), X.clone().requires_grad_()
    loss = module(x).square().sum()
    first = torch.autograd.grad(loss, x, retain_graph=True)[0]
    assert torch.equal(first, torch.autograd.grad(loss, x)[0])


def test_what_was_changed_in_place_is_not_used():
    module = encoder()
    loss = module(X).square().sum()
    with torch.no_grad():
        module.layers[0].feedforward.inner.outer.weight.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


class Product(nn.Module):
    """A sublayer of somebody's own, ``x^2 (x + 1)``, which may change what it was given."""

    def __init__(self, in_place: bool) -> None:
        super().__init__()
        self.in_place = in_place

    def forward(self, x, *_):
        y = x.square()
        return y * (x.add_(1.0) if self.in_place else x + 1.0)


def test_a_norms_output_that_is_changed_in_place_has_right_gradients():
    found = []
    for in_place in (True, False):
        module, x = encoder("pre"), X.clone().requires_grad_()
        module.layers[1].feedforward.inner = Product(in_place)
        found.append(torch.autograd.grad(module(x).square().sum(), x)[0])
    assert torch.equal(*found)


def test_hooks_of_others_see_every_tensor(monkeypatch):
    module, x = encoder(), X.clone().requires_grad_()

    def count():
        seen = []
        with torch.autograd.graph.saved_tensors_hooks(seen.append, lambda one: one):
            module(x)
        return len(seen)

    found = count()
    with everything_kept(monkeypatch):
        assert count() == found


def test_a_stack_that_is_checkpointed_as_a_whole(monkeypatch):
    module, x = encoder(), X.clone().requires_grad_()
    torch.manual_seed(1)
    loss = checkpoint(module, x, use_reentrant=False).square().sum()
    found = torch.autograd.grad(loss, [x, *module.parameters()])
    with everything_kept(monkeypatch):
        assert all(map(torch.equal, found, gradients(module, x, again=False)))
