"""Each residual connection is its formula, on sublayers and norms of plain PyTorch."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import tfzoo
from tests.exact import close
from tfzoo.base.registry import create
from tfzoo.components.residual.deepnorm import DeepNorm
from tfzoo.models.initialise import initialise
from tfzoo.models.options import StackOptions
from tfzoo.models.stack import Stack
from tfzoo.models.transformer_layer import TransformerLayer
from tfzoo.testing.samples import randomize

D = 6


def wrap(spec, inner, layers=4, **given):
    supplied = {"dropout": 0.0, "dim": D, "norm": "layer", "layer": 0, "layers": layers, **given}
    wrapped = create("residual", spec, inner=inner, **supplied)
    return wrapped


def norm(x, part):
    return F.layer_norm(x, (D,), part.weight, part.bias, 1e-5)


def sandwich(x, part):
    return x + norm(part.inner(norm(x, part.norm)), part.output_norm)


def deepnorm(x, part):
    return norm(8**0.25 * x + part.inner(x), part.norm)


def gated(x, part):
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
def test_is_its_formula(name):
    torch.manual_seed(0)
    part = randomize(wrap(name, nn.Linear(D, D)).double())
    x = torch.randn(2, 5, D, dtype=torch.float64)
    close(part(x), FORMULAS[name](x, part))


def test_a_layer_with_rezero_starts_as_the_identity_and_learns():
    stack = Stack(
        8, StackOptions(1, 2, residual="rezero", norm="none", dropout=0.0, position="none"),
        causal=False, cross=False, allow=(),
    )  # fmt: skip
    x = torch.randn(2, 3, 8)
    out = stack.run(x, None, stack.context(x, None, None))
    assert torch.equal(out, x)
    out.square().sum().backward()
    layer = stack.layers[0]
    for part in (layer.self_attention, layer.feedforward):
        assert part is not None
        assert part.alpha.grad.abs() > 0
        assert all(not weight.grad.any() for weight in part.inner.parameters())


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (tfzoo.Encoder(8, 2, 6, residual="deepnorm"), (1.8612, 0.3799)),
        (tfzoo.Encoder(8, 2, 50, residual="deepnorm"), (3.1623, 0.2236)),
        (tfzoo.LanguageModel(9, 8, 2, 6, residual="deepnorm"), (1.8612, 0.3799)),
        (tfzoo.TransformerClassifier(9, 2, 8, 2, 6, residual="deepnorm"), (1.8612, 0.3799)),
        (tfzoo.Decoder(8, 2, 6, residual="deepnorm"), (2.0598, 0.3433)),
        (tfzoo.Decoder(8, 2, 6, residual="deepnorm", cross_attention=False), (1.8612, 0.3799)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_deepnorm_has_the_numbers_of_its_paper(model, expected):
    """Wang et al. 2022, figure 2, the line of the stack that it stands in."""
    for part in model.modules():
        if isinstance(part, DeepNorm):
            assert (part.alpha, part.beta) == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize(
    ("n", "m", "encoder", "decoder"),
    [(6, 6, (1.4179, 0.4970), (2.0598, 0.3433)), (18, 2, (1.7423, 0.4045), (1.5651, 0.4518))],
)
def test_deepnorm_of_a_translator_takes_the_depths_of_both_its_sides(n, m, encoder, decoder):
    """``0.81 (N^4 M)^(1/16), 0.87 (N^4 M)^(-1/16)``, and ``(3 M)^(1/4), (12 M)^(-1/4)``."""
    model = tfzoo.Transformer(9, 8, 2, n, residual="deepnorm", decoder={"layers": m})
    for side, expected in ((model.encoder, encoder), (model.decoder, decoder)):
        parts = [part for part in side.modules() if isinstance(part, DeepNorm)]
        assert len(parts) == (2 * n if side is model.encoder else 3 * m)
        for part in parts:
            assert (part.alpha, part.beta) == pytest.approx(expected, abs=5e-5)


def halved(cross=False, **options):
    """What starts half as large with a ``beta`` of 0.5, also when initialised anew."""
    layers = [
        TransformerLayer(
            8, StackOptions(2, 2, residual=residual, **options), causal=True, cross=cross
        )
        for residual in ("post", {"name": "deepnorm", "beta": 0.5})
    ]
    for _ in range(2):
        for layer in layers:
            initialise(layer, seed=1)
        plain, scaled = (dict(layer.named_parameters()) for layer in layers)
        found = {name for name in plain if not torch.equal(scaled[name], plain[name])}
        assert all(torch.equal(2 * scaled[name], plain[name]) for name in found)
    return found


@pytest.mark.parametrize(
    ("mixer", "matrices"),
    [
        ("multihead", {"value", "output"}),
        ("linear_attention", {"value", "output"}),
        ("convolution", {"input", "kernel", "output"}),
        ("gru", {"ahead.weight_ih_l0", "ahead.weight_hh_l0", "output"}),
        ({"name": "average", "hidden": 8}, {"ffn.inner", "ffn.outer"}),
    ],
)
def test_deepnorm_scales_what_a_mixer_declares(mixer, matrices):
    whole = ("kernel", "ahead")
    assert halved(mixer=mixer, feedforward="none") == {
        f"self_attention.inner.{one}" + ("" if one.startswith(whole) else ".weight")
        for one in matrices
    }


def test_a_gate_starts_close_to_the_identity_as_its_bias_says():
    x = torch.randn(2, 5, D, dtype=torch.float64)
    off = []
    for bias in (0.0, 2.0, 8.0):
        torch.manual_seed(0)
        part = wrap({"name": "gated", "bias": bias}, nn.Linear(D, D)).double()
        off.append((part(x) - x).abs().mean().item())
    assert off[0] > 2 * off[1] > 100 * off[2]


@pytest.mark.parametrize("residual", ["pre", "post", "none"])
@pytest.mark.parametrize("mixer", ["multihead", "gru", "fourier"])
def test_padding_passes_through_to_a_mixer_in_own_code(residual, mixer):
    heads = {"heads": 2} if mixer == "multihead" else {}
    inner = tfzoo.create("mixer", mixer, dim=D, **heads)
    sublayer = tfzoo.create("residual", residual, norm="layer", dim=D, inner=inner)
    real = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    x = torch.randn(2, 5, D, dtype=torch.float64)
    y = sublayer.double().eval()(x, real)
    close(y[1:, :3], sublayer(x[1:, :3]))
    close(y[0], sublayer(x[:1])[0])
