"""Attention maps are those that the outputs are made with, and recording them leaves nothing."""

import warnings

import pytest
import torch
from torch import nn

import tfzoo
from tests.exact import close
from tfzoo.base.registry import registry
from tfzoo.contracts import Attention
from tfzoo.errors import BadOption
from tfzoo.testing.samples import randomize

SOURCE = torch.tensor([[5, 6, 7, 3, 8], [8, 9, 3, 0, 0]])
TARGET = torch.tensor([[2, 5, 6, 7], [2, 8, 9, 4]])
MASK = tfzoo.Mask.right(torch.tensor([5, 3]), 5)
every_attention = pytest.mark.parametrize("name", registry("attention").names())


def translator(attention):
    torch.manual_seed(0)
    model = tfzoo.Transformer(
        20, dim=8, heads=2, layers=2, attention=attention, position="relative_bias"
    )
    randomize(model)
    return model.double().eval()


def is_as_before(model):
    attentions = [module for module in model.modules() if isinstance(module, Attention)]
    return not any(
        one._forward_pre_hooks or one._forward_hooks or "weights" in vars(one) for one in attentions
    )


@every_attention
def test_every_layer_has_its_maps_and_the_output_is_the_same(name):
    model = translator(name)
    with tfzoo.attention_maps(model) as maps:
        found = model(SOURCE, TARGET, source_mask=MASK)
    assert torch.equal(found, model(SOURCE, TARGET, source_mask=MASK))
    assert is_as_before(model)
    shapes = {"encoder.self": (5, 5), "decoder.self": (4, 4), "decoder.cross": (4, 5)}
    sides = [f"{n.partition('.')[0]}.{n.split('.')[3].partition('_')[0]}" for n in maps]
    assert sides == ["encoder.self"] * 2 + ["decoder.self", "decoder.cross"] * 2
    for side, (one,) in zip(sides, maps.values(), strict=True):
        assert one.shape == (2, 2, *shapes[side])
        close(one.sum(-1), torch.ones(2, 2, len(one[0, 0]), dtype=torch.float64))
        if side == "decoder.self":
            assert not one.triu(1).any()
        else:
            assert not one[1, :, :, 3:].any()
        assert not one.requires_grad


@every_attention
def test_a_cached_step_gives_the_row_of_its_query(name):
    model = translator(name)
    with tfzoo.attention_maps(model) as at_once, torch.no_grad():
        model(SOURCE, TARGET)
    with tfzoo.attention_maps(model) as maps, torch.no_grad():
        cache = model.init_cache(SOURCE)
        for tokens in TARGET.T:
            model.decode_step(tokens, cache)
    for key, (whole,) in at_once.items():
        if key.startswith("decoder"):
            for i, row in enumerate(maps[key]):
                close(row[:, :, 0], whole[:, :, i, : row.shape[-1]])


@every_attention
def test_multihead_attention_has_one_map_for_each_call(name):
    torch.manual_seed(0)
    model = tfzoo.MultiheadAttention(8, 2, attention=name, batch_first=True).double()
    x, hidden = torch.randn(2, 5, 8).double(), torch.ones(5, 5, dtype=torch.bool).tril()
    with tfzoo.attention_maps(model) as outer, tfzoo.attention_maps(model) as maps:
        _, weights = model(x, x, x, attn_mask=hidden, average_attn_weights=False)
        model(x, x, x, attn_mask=hidden, need_weights=False)
    model(x, x, x)
    for found in (maps, outer):
        assert len(found["attention"]) == 2
        for one in found["attention"]:
            close(one, weights.detach())
    assert weights.requires_grad
    assert is_as_before(model)


def test_maps_of_torchs_encoder_and_of_compiled_models():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    layer.self_attn = tfzoo.MultiheadAttention(8, 2, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    x = torch.randn(2, 5, 8)
    torch.compiler.reset()
    compiled = torch.compile(model, backend="eager")
    with torch.no_grad():
        compiled(x)
        for one in (model, compiled):
            with tfzoo.attention_maps(one) as maps:
                one(x)
            assert [len(calls) for calls in maps.values()] == [1, 1]


def test_what_has_no_map_says_so():
    theirs = nn.TransformerEncoderLayer(8, 2)
    with pytest.raises(BadOption, match="TransformerEncoderLayer has no attention of tfzoo"):
        tfzoo.attention_maps(theirs).__enter__()
    both = nn.ModuleList([theirs, tfzoo.MultiheadAttention(8, 2)])
    with (
        pytest.warns(UserWarning, match=r"no attention map of 0\.self_attn"),
        tfzoo.attention_maps(both) as maps,
    ):
        pass
    assert maps == {"1.attention": []}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with tfzoo.attention_maps(both[1]):
            pass
