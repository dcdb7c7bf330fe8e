"""Prefix language models: the first tokens of a row see each other, all others see earlier ones."""

from typing import Any

import pytest
import torch

import tfzoo
from tests.exact import close
from tfzoo.base.registry import registry
from tfzoo.errors import BadOption
from tfzoo.masks import Mask
from tfzoo.testing.samples import randomize

DIM, N = 8, 7
PREFIX = torch.tensor([4, 2])
MIXERS, POSITIONS = (
    {name: registry(kind).entry(name).traits for name in registry(kind).names()}
    for kind in ("mixer", "position")
)
CHOICES: list[dict[str, Any]] = [
    *({"position": name} for name in POSITIONS if "needs_length" not in POSITIONS[name]),
    *({"attention": name} for name in registry("attention").names()),
    *({"weighting": name, "position": "none"} for name in registry("weighting").names()),
    {"window": 2},
    {"pattern": [{"window": 3}, {"position": "alibi"}], "kv_heads": 1},
    {"mixer": "none", "position": "none"},
]


def decoder(**options):
    torch.manual_seed(0)
    sizes = {"heads": 2, "layers": 2, "dropout": 0.0, "cross_attention": False, "max_length": 16}
    allow = ["unrotatable-attention"]
    return randomize(tfzoo.Decoder(DIM, **{**sizes, **options}, allow=allow)).double().eval()


def by_formula(model, x, window=None):
    """Not causal, with the mask written out (and the window): ``j <= i`` or ``j < prefix``."""
    config = {**model.config, "causal": False, "window": None}
    plain = tfzoo.Decoder(**config).double().eval()
    plain.load_state_dict(model.state_dict())
    plain.position = model.position  # that of a causal stack, also where directions have their own
    i, j = torch.arange(N)[:, None], torch.arange(N)
    allowed = (j <= i) | (j < PREFIX[:, None, None])
    if window is not None:
        allowed &= (i - j).abs() < window
    return plain(x, mask=Mask(allowed=allowed[:, None]))


def vectors():
    return torch.randn(2, N, DIM, dtype=torch.float64, generator=torch.manual_seed(1))


def in_pieces(model, x, *sizes):
    cache = model.init_cache()
    first, *later = x.split(list(sizes), 1)
    found = [model(first, prefix=PREFIX, cache=cache)]
    return torch.cat([*found, *(model(piece, cache=cache) for piece in later)], 1)


@pytest.mark.parametrize("options", CHOICES, ids=str)
def test_the_first_tokens_see_each_other_with_and_without_a_cache(options):
    model, x = decoder(**options), vectors()
    whole = model(x, prefix=PREFIX)
    if "pattern" not in options:
        close(whole, by_formula(model, x, options.get("window")))
    for sizes in ((4, 1, 1, 1), (5, 2), (N,)):
        close(in_pieces(model, x, *sizes), whole)
    if "attends" in MIXERS[options.get("mixer", "multihead")]:
        sparse = "sparse" in registry("weighting").entry(options.get("weighting", "softmax")).traits
        assert sparse or not torch.allclose(whole[:, 0], model(x)[:, 0]), "the first sees more"


@pytest.mark.parametrize("mixer", MIXERS)
def test_a_mixer_that_cannot_see_a_prefix_refuses_it(mixer):
    if "bidirectional" in MIXERS[mixer]:
        return  # in no decoder
    model = decoder(mixer=mixer, position="none")
    if MIXERS[mixer] & {"attends", "identity"}:
        assert model(vectors(), prefix=PREFIX).shape == (2, N, DIM)
        return
    with pytest.raises(BadOption, match=r"tokens of a prefix see later ones, but a mixer .*: use"):
        model(vectors(), prefix=PREFIX)


def test_padding_on_any_side_is_no_part_of_a_prefix():
    model, x = decoder(position="rotary"), vectors()
    wanted = model(x[1:, :5], prefix=torch.tensor([2]))[0]
    for left in (0, 1, 2):
        real = torch.ones(2, N, dtype=torch.bool)
        real[1] = False
        real[1, left : left + 5] = True
        shifted = torch.stack([x[0], x[1].roll(left, 0)])
        for mask in (Mask(keys=real), *([Mask.right(real.sum(1), N)] if left == 0 else [])):
            y = model(shifted, mask=mask, prefix=PREFIX)
            close(y[1, real[1]], wanted)
            close(y[0], model(x[:1], prefix=PREFIX[:1])[0])
        cache = model.init_cache()
        model(shifted, mask=Mask(keys=real), prefix=PREFIX, cache=cache)
        more = torch.cat([x[:, :1], x[:, 1:2]], 1)
        alone = torch.cat([x[1:, :5], more[1:]], 1)
        close(model(more, cache=cache)[1], model(alone, prefix=PREFIX[1:])[0, 5:])


def test_a_layer_alone_and_a_decoder_with_memory_take_a_prefix():
    torch.manual_seed(0)
    layer = randomize(tfzoo.DecoderLayer(DIM, 2, dropout=0.0)).double().eval()
    x, memory, cache = vectors(), vectors()[:, :3], None
    whole = layer(x, memory, prefix=PREFIX)
    cache = layer.init_cache(memory)
    first = layer(x[:, :5], prefix=PREFIX, cache=cache)
    close(torch.cat([first, layer(x[:, 5:], cache=cache)], 1), whole)
    assert not torch.allclose(whole[:, 0], layer(x, memory)[:, 0])


@pytest.mark.parametrize(
    ("prefix", "options", "message"),
    [
        (torch.tensor([4, 8]), {}, "prefix is 8 in row 1, which has 7 tokens here"),
        (torch.tensor([-1, 2]), {}, "prefix is -1 in row 0"),
        (torch.tensor([4]), {}, r"prefix must be integers \(2\), a length for each row, not \(1\)"),
        (torch.tensor([4.0, 2.0]), {}, r"prefix must be integers \(2\).* torch.float32"),
        (3, {}, r"prefix must be a tensor \(2\), a length for each row, not 3"),
        (PREFIX, {"causal": False}, "a prefix needs causal=True"),
    ],
)
def test_a_wrong_prefix_is_refused_in_one_line(prefix, options, message):
    with pytest.raises(BadOption, match=message) as caught:
        decoder(**options)(vectors(), prefix=prefix)
    assert "\n" not in str(caught.value)


def test_a_prefix_belongs_to_the_first_call_with_a_cache():
    model, x = decoder(), vectors()
    cache = model.init_cache()
    model(x[:, :4], prefix=PREFIX, cache=cache)
    with pytest.raises(BadOption, match="pass it in the first call, with the whole prefix"):
        model(x[:, 4:], prefix=PREFIX, cache=cache)
    real = torch.tensor([[True] * N, [True] + [False] * (N - 1)])
    with pytest.raises(BadOption, match="prefix is 2 in row 1, which has 1 tokens here"):
        model(x, mask=Mask(keys=real), prefix=PREFIX, cache=model.init_cache())
