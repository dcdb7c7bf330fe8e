"""Each residual connection is its formula, on sublayers and norms of plain PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tfzoo.blocks.options import StackOptions
from tfzoo.blocks.stack import Stack
from tfzoo.blocks.transformer_layer import TransformerLayer
from tfzoo.contracts import Residual
from tfzoo.models.initialise import initialise
from tfzoo.registry import create
from tfzoo.testing.samples import randomize

D = 6


def wrap(spec: str | dict[str, Any], inner: nn.Module, layers: int = 4, **given: Any) -> Residual:
    supplied = {"dropout": 0.0, "dim": D, "norm": "layer", "layer": 0, "layers": layers, **given}
    wrapped: Residual = create("residual", spec, inner=inner, **supplied)
    return wrapped


def norm(x: Tensor, part: Any) -> Tensor:
    return F.layer_norm(x, (D,), part.weight, part.bias, 1e-5)


def sandwich(x: Tensor, part: Any) -> Tensor:
    return x + norm(part.inner(norm(x, part.norm)), part.output_norm)


def deepnorm(x: Tensor, part: Any) -> Tensor:
    return norm(8**0.25 * x + part.inner(x), part.norm)


def gated(x: Tensor, part: Any) -> Tensor:
    """Parisotto et al. 2019, section 3.2, in the paper's names."""
    w_z, w_r, w_g = part.from_sublayer.weight.chunk(3)
    u_z, u_r, u_g = *part.from_input.weight.chunk(2), part.from_reset.weight
    y = part.inner(norm(x, part.norm)).relu()
    r = torch.sigmoid(y @ w_r.T + x @ u_r.T)
    z = torch.sigmoid(y @ w_z.T + x @ u_z.T - part.bias)
    h = torch.tanh(y @ w_g.T + (r * x) @ u_g.T)
    return (1 - z) * x + z * h


FORMULAS = {
    "pre": lambda x, part: x + part.inner(norm(x, part.norm)),
    "post": lambda x, part: norm(x + part.inner(x), part.norm),
    "none": lambda x, part: part.inner(norm(x, part.norm)),
    "sandwich": sandwich,
    "post_sublayer": lambda x, part: x + norm(part.inner(x), part.norm),
    "deepnorm": deepnorm,
    "rezero": lambda x, part: x + part.alpha * part.inner(norm(x, part.norm)),
    "gated": gated,
}


@pytest.mark.parametrize("name", FORMULAS)
def test_is_its_formula(name: str) -> None:
    torch.manual_seed(0)
    part = randomize(wrap(name, nn.Linear(D, D)).double())
    x = torch.randn(2, 5, D, dtype=torch.float64)
    torch.testing.assert_close(part(x), FORMULAS[name](x, part), rtol=1e-9, atol=1e-9)


def test_a_layer_with_rezero_starts_as_the_identity_and_learns() -> None:
    stack = Stack(
        8, StackOptions(1, 2, residual="rezero", norm="none", dropout=0.0, position="none"),
        causal=False, cross=False, allow=(),
    )  # fmt: skip
    x = torch.randn(2, 3, 8)
    out = stack.run(x, None, stack.context(x, None, None, None))
    assert torch.equal(out, x)
    out.square().sum().backward()
    layer = stack.layers[0]
    for part in (layer.self_attention, layer.feedforward):
        assert part is not None
        assert part.alpha.grad.abs() > 0
        assert all(not weight.grad.any() for weight in part.inner.parameters())


@pytest.mark.parametrize(("layers", "alpha", "beta"), [(6, 1.8612, 0.3799), (50, 3.1623, 0.2236)])
def test_deepnorm_has_the_numbers_of_its_paper(layers: int, alpha: float, beta: float) -> None:
    """Wang et al. 2022, figure 2: ``(2 N)^(1/4)`` and ``(8 N)^(-1/4)``."""
    part = wrap("deepnorm", nn.Linear(D, D), layers)
    assert (part.alpha, part.beta) == pytest.approx((alpha, beta), abs=5e-5)


def test_deepnorm_scales_the_start_of_values_outputs_and_feedforward_alone() -> None:
    """In a stack with cross-attention, and again whenever the model is initialised anew."""
    options = StackOptions(2, 2, gate=True, attention="additive", feedforward="swiglu")
    layers = [
        TransformerLayer(8, options.updated({"residual": residual}), causal=True, cross=True)
        for residual in ("post", {"name": "deepnorm", "beta": 0.5})
    ]
    for _ in range(2):
        for layer in layers:
            initialise(layer, seed=1)
        plain, scaled = (dict(layer.named_parameters()) for layer in layers)
        ratios = {name: scaled[name] / plain[name] for name in plain if name.endswith(".weight")}
    halved = {name for name, ratio in ratios.items() if bool((ratio == 0.5).all())}
    alike = {name for name, ratio in ratios.items() if bool((ratio == 1.0).all())}
    attentions = ("self_attention", "cross_attention")
    assert halved == {
        *(f"{where}.inner.{part}.weight" for where in attentions for part in ("value", "output")),
        *(f"feedforward.inner.{part}.weight" for part in ("inner", "outer")),
    }
    assert halved | alike == set(ratios)


def test_a_gate_starts_close_to_the_identity_as_its_bias_says() -> None:
    x = torch.randn(2, 5, D, dtype=torch.float64)
    off = []
    for bias in (0.0, 2.0, 8.0):
        torch.manual_seed(0)
        part = wrap({"name": "gated", "bias": bias}, nn.Linear(D, D)).double()
        off.append((part(x) - x).abs().mean().item())
    assert off[0] > 2 * off[1] > 100 * off[2]
