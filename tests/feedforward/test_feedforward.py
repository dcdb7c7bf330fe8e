"""Feed-forward layers are their formulas, and cost what the plain ones cost."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.testing import assert_close

from tfzoo.registry import create, registry

NAMES = [name for name in registry("feedforward").names() if name != "none"]
ACTIVATION = {
    "relu": functional.relu,
    "gelu": functional.gelu,
    "swiglu": functional.silu,
    "geglu": functional.gelu,
}


def parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize("name", NAMES)
def test_is_its_formula(name: str) -> None:
    layer, x = create("feedforward", {"name": name, "hidden": 24}, dim=8), torch.randn(2, 3, 8)
    inner, outer = layer.inner, layer.outer
    if name.endswith("glu"):
        gate, value = inner.weight.chunk(2)
        wanted = (ACTIVATION[name](x @ gate.T) * (x @ value.T)) @ outer.weight.T
    else:
        wanted = ACTIVATION[name](x @ inner.weight.T + inner.bias) @ outer.weight.T + outer.bias
    assert_close(layer(x), wanted)


@pytest.mark.parametrize("name", ["relu", "gelu"])
def test_equals_the_layer_of_torch(name: str) -> None:
    peer = nn.TransformerEncoderLayer(8, 2, 24, activation=name, batch_first=True)
    layer, x = create("feedforward", {"name": name, "hidden": 24}, dim=8), torch.randn(2, 3, 8)
    layer.inner.load_state_dict(peer.linear1.state_dict())
    layer.outer.load_state_dict(peer.linear2.state_dict())
    assert_close(layer(x), peer.eval()._ff_block(x))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("hidden", [None, 192])
def test_all_have_as_many_parameters(name: str, hidden: int | None) -> None:
    plain = create("feedforward", {"name": "relu", "hidden": hidden}, dim=48)
    assert (
        abs(
            parameters(create("feedforward", {"name": name, "hidden": hidden}, dim=48))
            / parameters(plain)
            - 1.0
        )
        < 0.02
    )


@pytest.mark.parametrize("name", NAMES)
def test_dropout_falls_on_the_hidden_layer(name: str) -> None:
    torch.manual_seed(0)
    layer, x = create("feedforward", {"name": name, "hidden": 3000}, dim=8), torch.randn(1, 1, 8)
    layer.outer = nn.Identity()
    kept, whole = layer(x, 0.25).flatten(), layer(x).flatten()
    alive = whole != 0
    assert_close((kept[alive] == 0).float().mean(), torch.tensor(0.25), atol=0.05, rtol=0.0)
    assert_close(kept[kept != 0], whole[kept != 0] / 0.75, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_compiles_and_autocasts(name: str) -> None:
    layer, x = create("feedforward", name, dim=8), torch.randn(2, 3, 8)
    assert_close(torch.compile(layer, fullgraph=True, backend="aot_eager")(x), layer(x))
    with torch.autocast("cpu", torch.bfloat16):
        assert_close(layer(x).float(), layer(x.clone()).float(), atol=0.1, rtol=0.1)


def test_none_changes_nothing() -> None:
    x = torch.randn(2, 3, 8)
    assert create("feedforward", "none")(x) is x
