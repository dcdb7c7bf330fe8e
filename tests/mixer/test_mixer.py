"""Mixers against code that somebody else wrote, and against their own formulas."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from tests.exact import close
from tfzoo.base.registry import create, registry
from tfzoo.errors import BadOption
from tfzoo.masks import Mask
from tfzoo.models.encoder_decoder import Decoder, Encoder
from tfzoo.models.options import StackOptions
from tfzoo.testing.contract import reproducible
from tfzoo.testing.samples import lengths_to_valid, randomize

DIM, HEADS = 8, 2
NOTHING_ELSE = dict.fromkeys(("residual", "norm", "feedforward", "position"), "none")
LENGTHS = [7, 3, 5]
VALID = lengths_to_valid(LENGTHS, 7)


@pytest.fixture(autouse=True)
def _float64():
    with reproducible():
        yield


def stack(causal, mixer, **options):
    """A stack of one layer that computes what the mixer does, with random parameters."""
    options = {"dropout": 0.0, **NOTHING_ELSE, "mixer": mixer, **options}
    made = (
        Decoder(DIM, HEADS, 1, cross_attention=False, **options)
        if causal
        else Encoder(DIM, HEADS, 1, **options)
    )
    randomize(made)
    return made.eval()


def mixer_of(made):
    return made.layers[0].self_attention.inner


def test_a_gru_is_that_of_pytorch_on_packed_sequences():
    for causal in (False, True):
        made, x = stack(causal, {"name": "gru", "hidden": 5}), torch.randn(3, 7, DIM)
        mixer = mixer_of(made)
        peer = nn.GRU(DIM, 5, batch_first=True, bidirectional=not causal)
        weights = dict(mixer.ahead.named_parameters())
        if not causal:
            weights |= {f"{name}_reverse": one for name, one in mixer.back.named_parameters()}
        peer.load_state_dict(weights)
        packed = pack_padded_sequence(x, torch.tensor(LENGTHS), True, enforce_sorted=False)
        states, _ = pad_packed_sequence(peer(packed)[0], batch_first=True)
        out = made(x, mask=Mask(keys=VALID))
        close(out[VALID], mixer.output(states)[VALID])


def test_a_gru_starts_with_orthogonal_recurrent_weights_and_without_bias():
    made = Encoder(DIM, HEADS, 1, mixer={"name": "gru", "hidden": 5}).double()
    gru = mixer_of(made).ahead
    for gate in gru.weight_hh_l0.split(5):
        close(gate @ gate.mT, torch.eye(5))
    assert not gru.bias_hh_l0.any()
    assert not gru.bias_ih_l0.any()


def test_a_fourier_transform_is_that_of_fnet():
    from transformers import FNetConfig
    from transformers.models.fnet.modeling_fnet import FNetFourierTransform

    made, x = stack(False, "fourier"), torch.randn(3, 7, DIM)
    peer = FNetFourierTransform(FNetConfig(hidden_size=DIM))
    close(made(x), peer.self.fourier_transform(x).real)


@pytest.mark.parametrize("causal", [False, True])
def test_linear_attention_is_its_quadratic_formula(causal):
    made, n = stack(causal, "linear_attention", value_head_dim=3), 150  # over two chunks
    mixer, x = mixer_of(made), torch.randn(2, n, DIM, requires_grad=True)
    q, k, v = (
        linear(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
        for linear in (mixer.query, mixer.key, mixer.value)
    )
    weights = (F.elu(q) + 1) @ (F.elu(k) + 1).mT
    weights = weights.tril() if causal else weights
    y = (weights / weights.sum(-1, keepdim=True)) @ v
    expected = mixer.output(y.transpose(1, 2).flatten(2))
    out = made(x)
    close(out, expected)
    direction = torch.randn_like(out)
    one, other = (torch.autograd.grad((y * direction).sum(), x)[0] for y in (out, expected))
    close(one, other)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("width", [1, 3, 4])
def test_a_convolution_is_that_of_pytorch(causal, width):
    made = stack(causal, {"name": "convolution", "kernel_size": width})
    mixer, x = mixer_of(made), torch.randn(2, 7, DIM)
    a, b = mixer.input(x).chunk(2, -1)
    before = width - 1 if causal else (width - 1) // 2
    channels = F.pad((a * b.sigmoid()).mT, (before, width - 1 - before))
    kernel = mixer.kernel.softmax(-1).repeat_interleave(DIM // HEADS, 0)[:, None]
    close(made(x), mixer.output(F.conv1d(channels, kernel, groups=DIM).mT))


def test_a_convolution_drops_weights_of_its_kernel_in_training():
    made = stack(False, "convolution", attention_dropout=0.5)
    x = torch.randn(1, 5, DIM)
    assert not torch.equal(made.train()(x), made(x))
    close(made.eval()(x), made(x))


@pytest.mark.parametrize("hidden", [None, 5])
@pytest.mark.parametrize("causal", [False, True])
def test_an_average_is_its_formula(causal, hidden):
    made, x = stack(causal, {"name": "average", "hidden": hidden}), torch.randn(2, 7, DIM)
    mixer, out = mixer_of(made), made(x)
    assert bool(list(mixer.ffn.parameters())) == (hidden is not None), "FFN may be the identity"
    for t in range(7):
        mean = mixer.ffn((x[:, : t + 1] if causal else x).mean(1))
        keep, take = mixer.gate(torch.cat([x[:, t], mean], -1)).sigmoid().chunk(2, -1)
        close(out[:, t], keep * x[:, t] + take * mean)


def test_layers_with_different_mixers_decode_as_they_train():
    short = {"name": "convolution", "kernel_size": 3}
    pattern = [{"mixer": one} for one in ("gru", "linear_attention", short, "average", "none")]
    pattern += [{"window": 2}]
    made, x = (
        Decoder(DIM, HEADS, 6, pattern=pattern, cross_attention=False).eval(),
        torch.randn(2, 6, DIM),
    )
    cache = made.init_cache()
    close(torch.cat([made(one, cache=cache) for one in torch.split(x, 1, 1)], 1), made(x))


def test_an_option_without_effect_is_refused():
    with pytest.raises(BadOption, match="window acts on self-attention"):
        Encoder(DIM, HEADS, 1, mixer="gru", window=3)
    made, mask = stack(False, "gru"), Mask(allowed=torch.ones(1, 1, 3, 3, dtype=torch.bool))
    with pytest.raises(BadOption, match=r"mask\.allowed hides tokens"):
        made(torch.randn(1, 3, DIM), mask=mask)
    with pytest.raises(BadOption, match="heads=3 do not divide dim=8"):
        Encoder(DIM, 3, 1, head_dim=4, mixer="convolution")


# A mixer alone ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", registry("mixer").names())
def test_a_mixer_alone_computes_what_it_computes_in_a_stack(name):
    x, options = torch.randn(3, 7, DIM), StackOptions(heads=HEADS)
    bidirectional = "bidirectional" in registry("mixer").entry(name).traits
    for causal in (False,) if bidirectional else (False, True):
        made = stack(causal, name)
        alone = create("mixer", name, dim=DIM, options=options, causal=causal).double().eval()
        alone.load_state_dict(mixer_of(made).state_dict() if name != "none" else {})
        close(alone(x), made(x))
        close(alone(x, mask=Mask(keys=VALID))[VALID], made(x, mask=Mask(keys=VALID))[VALID])
        if causal:
            close(alone(x, mask=Mask(causal=True, keys=VALID))[VALID], alone(x, None)[VALID])


def test_attention_alone_takes_any_mask():
    mixer, x = create("mixer", "multihead", dim=16).double(), torch.randn(2, 3, 16)
    causal = create("mixer", "multihead", dim=16, causal=True).double()
    causal.load_state_dict(mixer.state_dict())
    close(mixer(x, mask=Mask(causal=True)), causal(x))
    triangle = Mask(allowed=torch.ones(3, 3, dtype=torch.bool).tril()[None, None])
    close(mixer(x, mask=triangle), causal(x))
    assert not torch.allclose(mixer(x), causal(x))


ANY = torch.ones(1, 1, 3, 3, dtype=torch.bool)


@pytest.mark.parametrize(
    ("mixer", "mask", "message"),
    [
        ("gru", Mask(causal=True), "'gru' was built to read later tokens: create one with causal="),
        ("fourier", Mask(causal=True), "'fourier' was built to read later tokens: use another one"),
        ("average", Mask(allowed=ANY), "'average' cannot hide tokens as mask.allowed says: use mu"),
        ("multihead", Mask(keys=VALID), r"mask.keys must be \(2 3\)"),
        ("multihead", VALID, "mask must be a tfzoo.Mask, not Tensor"),
        ("multihead", Mask(start=3), "leave it out"),
    ],
)
def test_what_a_mixer_alone_cannot_read_is_said(mixer, mask, message):
    made = create("mixer", mixer, dim=16).double()
    with pytest.raises(BadOption, match=message):
        made(torch.randn(2, 3, 16), mask=mask)
    with pytest.raises(BadOption, match=r"x must be vectors"):
        made(torch.randn(3, 16))
