"""Feed-forward layers are their formulas, and those of PyTorch."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.testing import assert_close

from tfzoo.base.registry import create

Activation = Callable[[Tensor], Tensor]
PLAIN: dict[str, Activation] = {
    "relu": functional.relu,
    "gelu": functional.gelu,
    "silu": lambda z: z * torch.sigmoid(z),
    "relu_squared": lambda z: torch.clamp(z, min=0.0) ** 2,
}
GATED: dict[str, Activation] = {
    "swiglu": functional.silu,
    "geglu": functional.gelu,
    "reglu": functional.relu,
    "bilinear": lambda z: z,
}
NAMES = [*PLAIN, *GATED]


def parameters(module):
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_is_its_formula(name, bias):
    layer = create("feedforward", {"name": name, "hidden": 24, "bias": bias}, dim=8)
    x = torch.randn(2, 3, 8)
    (w, b), (u, c) = ((part.weight, 0.0) for part in (layer.inner, layer.outer))
    assert [layer.inner.bias is None, layer.outer.bias is None] == [not bias] * 2
    if bias:
        b, c = (nn.init.normal_(part.bias) for part in (layer.inner, layer.outer))
    z = x @ w.T + b
    if name in GATED:
        gate, value = z.chunk(2, -1)
        hidden = GATED[name](gate) * value
    else:
        hidden = PLAIN[name](z)
    assert hidden.shape[-1] == 24, "hidden is the width of the hidden layer, gated or not"
    assert_close(layer(x), hidden @ u.T + c)


def test_biases_are_where_their_authors_have_them():
    biased = {
        name
        for name in NAMES
        if any("bias" in key for key in create("feedforward", name, dim=8).state_dict())
    }
    assert biased == PLAIN.keys()


@pytest.mark.parametrize("name", NAMES)
def test_all_have_as_many_parameters_by_default(name):
    sizes = [parameters(create("feedforward", one, dim=48)) for one in (name, "relu")]
    assert abs(sizes[0] / sizes[1] - 1.0) < 0.02


@pytest.mark.parametrize("name", NAMES)
def test_dropout_falls_on_the_hidden_layer(name):
    torch.manual_seed(0)
    layer, x = create("feedforward", {"name": name, "hidden": 9000}, dim=8), torch.randn(1, 1, 8)
    layer.outer = nn.Identity()
    kept, whole = layer(x, 0.25).flatten(), layer(x).flatten()
    alive = whole != 0
    assert_close((kept[alive] == 0).float().mean(), torch.tensor(0.25), atol=0.05, rtol=0.0)
    assert_close(kept[kept != 0], whole[kept != 0] / 0.75, atol=1e-5, rtol=1e-4)
