"""Windows are masks, patterns are layers put together, with a cache as in one pass."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F

import tfzoo
from tests.exact import close
from tests.models.test_encoder_decoder import padded
from tfzoo.base.registry import registry
from tfzoo.errors import BadOption, Clash
from tfzoo.masks import Mask
from tfzoo.testing.samples import randomize

DIM, N = 8, 9
TEXT = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1, 1])
"""Two texts in one row."""
PACKED = torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3, 4]])
WINDOWED: list[dict[str, Any]] = [
    {"window": 3},
    {"window": 1},
    {"window": N},
    {"pattern": [{"window": 3}, {}]},
    {"pattern": [{}, {"window": 2, "position": "alibi"}]},
    {"pattern": [{"window": 2}, {"window": 4}], "kv_heads": 1, "query_key_norm": {"norm": "rms"}},
]


def built(cls, **options):
    torch.manual_seed(0)
    if cls in (tfzoo.Encoder, tfzoo.Decoder):
        options = {"layers": 2, **options}
    given = {"dropout": 0.0, "position": "rotary", "heads": 2, **options}
    return randomize(cls(DIM, **given)).double().eval()


def decoder(**options):
    return built(tfzoo.Decoder, cross_attention=False, **options)


def vectors(b=2, n=N):
    return torch.randn(b, n, DIM, generator=torch.Generator().manual_seed(1)).double()


# Windows are masks --------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [1, 2, 4, 5, 2 * N])
@pytest.mark.parametrize("cls", [tfzoo.Encoder, tfzoo.Decoder])
def test_a_window_equals_the_mask_of_transformers(cls, window):
    """Of Mistral and Gemma 2, and of ModernBERT, whose window counts both sides."""
    from transformers import masking_utils as masks

    causal = cls is tfzoo.Decoder
    overlay = (
        masks.sliding_window_overlay(window)
        if causal
        else masks.sliding_window_bidirectional_overlay(window // 2)
    )
    q, k = torch.arange(N)[:, None], torch.arange(N)[None]
    near = torch.as_tensor(overlay(0, 0, q, k)).expand(N, N)[None, None]
    cross = {"cross_attention": False} if causal else {}
    windowed, full = built(cls, window=window, **cross), built(cls, **cross)
    x = vectors()
    close(windowed(x), full(x, mask=Mask(causal, allowed=near)))


@pytest.mark.parametrize("cls", [tfzoo.Encoder, tfzoo.Decoder])
@pytest.mark.parametrize("attention", registry("attention").names())
def test_a_window_counts_tokens_and_not_padding(cls, attention):
    """With padding on either side, and with several texts in one row."""
    cross = {"cross_attention": False} if cls is tfzoo.Decoder else {}
    given = {"window": 4, "attention": attention, "position": "none", **cross}
    stack, x = built(cls, **given), vectors()
    for row, side in (("xxxxxx...", "right"), ("...xxxxxx", "left"), ("xxx...xxx", None)):
        real = padded("xxxxxxxxx", row)
        mask = Mask.right(real.sum(1), 9) if side == "right" else Mask(keys=real)
        y = stack(x, mask=mask)
        close(y[0], stack(x[:1])[0])
        close(y[1, real[1]], stack(x[1:, real[1]])[0])
    packed = Mask(stack.causal, allowed=(TEXT[:, None] == TEXT)[None, None])
    apart = torch.cat([stack(x[:, :4]), stack(x[:, 4:])], 1)
    close(stack(x, mask=packed, positions=PACKED), apart)


@pytest.mark.parametrize("heads", [{"share_query_key": True}, {"kv_heads": 1}, {}], ids=str)
def test_a_window_is_of_self_attention_alone(heads):
    """Cross-attention reads the whole memory."""
    decoder = built(tfzoo.Decoder, layers=1, window=1, **heads)
    memory = vectors(1).requires_grad_()
    decoder(vectors(1, 2), memory).square().sum().backward()
    assert memory.grad is not None
    assert (memory.grad.abs().amax(-1) > 0).all()


# With a cache -------------------------------------------------------------------------------------


def pieces(model, x, sizes, **masks):
    """The outputs of a decoder that gets its tokens piece by piece, and its cache."""
    cache, found, start = model.init_cache(), [], 0
    for n in sizes:
        here = slice(start, start + n)
        given = {}
        if "keys" in masks and not masks["keys"][:, here].all():
            given["mask"] = Mask(keys=masks["keys"][:, here])
        if "allowed" in masks:
            given["mask"] = Mask(True, allowed=masks["allowed"][:, :, here, : start + n])
            given["positions"] = PACKED[:, here]
        found.append(model(x[:, here], cache=cache, **given))
        start += n
    return torch.cat(found, 1), cache


@pytest.mark.parametrize("given", WINDOWED, ids=str)
def test_token_by_token_equals_all_at_once(given):
    """Also after prompts that are padded on either side, and for several texts in one row."""
    model, x = decoder(**given), vectors()
    wanted = model(x)
    for sizes in ((1,) * N, (4, 1, 2, 1, 1), (2, 7)):
        close(pieces(model, x, sizes)[0], wanted)
        for row in ("...xxxxxx", "xx..xxxxx"):
            real = padded("xxxxxxxxx", row)
            y = pieces(model, x, (4, *((1,) * 5)), keys=real)[0]
            close(y[0], wanted[0])
            close(y[1, real[1]], model(x[1:, real[1]])[0])
    allowed = (TEXT[:, None] == TEXT)[None, None]
    whole = model(x, mask=Mask(True, allowed=allowed), positions=PACKED)
    close(pieces(model, x, (3, 1, 1, 4), allowed=allowed)[0], whole)


@pytest.mark.parametrize("given", WINDOWED, ids=str)
def test_beams_take_their_windows_along(given):
    model, x = decoder(**given), vectors(4)
    cache = model.init_cache()
    model(x[:, :5], cache=cache)
    beams = torch.tensor([2, 2, 0])
    cache.reorder(beams)
    y = torch.cat([model(x[:3, n : n + 1], cache=cache) for n in range(5, N)], 1)
    close(y, model(torch.cat([x[beams, :5], x[:3, 5:]], 1))[:, 5:])


def test_a_cache_holds_no_more_than_its_window_needs():
    model = decoder(layers=4, pattern=[{"window": 3}, {}, {"window": 1}])
    cache = pieces(model, vectors(), (4, 1, 1, 3))[1]
    assert [kept.length for kept in cache.target] == [2, N, 0, 2]


# Layers that differ -------------------------------------------------------------------------------

PATTERN: list[dict[str, Any]] = [
    {"window": 3, "norm": "rms", "heads": 4},
    {"position": {"name": "rotary", "base": 50.0}, "attention": "cosine", "residual": "post"},
    {"position": "alibi", "feedforward": "swiglu", "residual": "sandwich", "gate": True},
]


def test_layers_of_a_pattern_are_the_layers_that_it_names():
    """Put together from layers of their own, in the order of the pattern, which repeats."""
    for stack, alone in (("Encoder", "EncoderLayer"), ("Decoder", "DecoderLayer")):
        cross = {"cross_attention": False} if stack == "Decoder" else {}
        whole = built(getattr(tfzoo, stack), layers=4, pattern=PATTERN, **cross)
        y, mask = vectors(), Mask(keys=padded("xxxxxxxxx", "..xxxxxxx"))
        x = y.clone()
        for index, layer in enumerate(whole.layers):
            entry = PATTERN[index % 3]
            own = built(getattr(tfzoo, alone), **entry, **cross)
            own.load_state_dict(layer.state_dict(), strict=False)
            y = own(y, mask=mask)
        close(whole(x, mask=mask)[mask.keys], whole.final_norm(y)[mask.keys])
        assert whole.final_norm.entry.name == "rms"
    assert built(tfzoo.Encoder, pattern=[{}, {"residual": "post"}]).final_norm is None


def test_a_clash_names_the_entry_of_the_pattern():
    with pytest.raises(Clash, match=r"^pattern.1: norm 'batch' mixes tokens"):
        built(tfzoo.Decoder, cross_attention=False, pattern=[{}, {"norm": "batch"}])


# Parallel layers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("parallel", ["one_norm", "two_norms"])
def test_a_parallel_layer_is_its_formula(parallel):
    layer, x = built(tfzoo.EncoderLayer, parallel=parallel, norm="layer"), vectors()
    mixer = built(tfzoo.EncoderLayer, feedforward="none", norm="layer")
    wrapped, inner = layer.self_attention, layer.self_attention.inner
    norms = [inner.mixer_norm, inner.feedforward_norm]
    if parallel == "one_norm":
        norms = [wrapped.norm, wrapped.norm]
    mixer.self_attention.inner.load_state_dict(inner.mixer.state_dict())
    mixer.self_attention.norm.load_state_dict(norms[0].state_dict())
    y = F.layer_norm(x, (DIM,), norms[1].weight, norms[1].bias)
    weights = inner.feedforward.inner, inner.feedforward.outer
    close(layer(x), mixer(x) + weights[1](weights[0](y).relu()))


def test_a_parallel_layer_has_no_cross_attention():
    with pytest.raises(BadOption, match="parallel does not work with cross-attention"):
        tfzoo.Transformer(12, DIM, 2, 1, parallel="one_norm")
