"""A part used alone: what it takes, and what it says of what it cannot take."""

import re

import pytest
import torch
from torch.testing import assert_close

from tfzoo.base.registry import create, registry
from tfzoo.errors import BadOption
from tfzoo.masks import Mask
from tfzoo.models.options import StackOptions

X, Q, PLACES = torch.randn(2, 5, 16), torch.randn(2, 4, 5, 8), torch.arange(5)
WIDE = create("feedforward", "relu", dim=32)
SUPPLIED = {"dim": 16, "heads": 4, "head_dim": 8, "max_length": 5, "causal": False}


@pytest.mark.parametrize("name", ["multihead", "linear_attention", "convolution"])
def test_a_mixer_takes_options_of_attention_by_their_names(name):
    options = {"heads": 2, "bias": False}
    by_name = create("mixer", name, dim=16, **options)
    by_object = create("mixer", name, dim=16, options=StackOptions(**options))
    by_name.load_state_dict(by_object.state_dict())
    assert_close(by_name(X), by_object(X))
    assert by_name.heads == 2


@pytest.mark.parametrize(
    ("kind", "name", "supplied", "message"),
    [
        ("mixer", "multihead", {"heads": 4}, 'needs dim: create("mixer", "multihead", dim=...)'),
        ("mixer", "multihead", {"dim": 16, "heads": 5}, "heads=5 do not divide dim=16"),
        ("mixer", "multihead", {"dim": 16, "window": 4}, "'window' is nothing that a model"),
        ("mixer", "gru", {"dim": 16, "heads": 4}, "'heads' is nothing that a model supplies"),
        ("norm", "rms", {"dim": 4, "eps": 1.0}, 'create("norm", {"name": "rms", "eps": ...})'),
        ("position", "rotary", {}, 'create("position", "rotary", head_dim=...)'),
        ("norm", "rms", {"dim": 0}, "norm 'rms': dim=0 must be a whole number at least 1"),
        ("residual", "pre", {"inner": WIDE, "dim": 16, "norm": "rms"}, "made with dim=32"),
    ],
)
def test_a_wrong_argument_is_answered_with_the_right_call(kind, name, supplied, message):
    with pytest.raises(BadOption, match=re.escape(message)):
        create(kind, name, **supplied)


@pytest.mark.parametrize("name", registry("position").own_names())
def test_the_hooks_of_a_position_take_positions_of_one_axis(name):
    one = create("position", name, **SUPPLIED)
    length = torch.full((2, 1), 5)
    assert_close(one.embed(X, PLACES, length), one.embed(X, PLACES[None], length))
    rotation, whole = one.angles(PLACES), one.angles(PLACES[None])
    if rotation is not None:
        assert_close(rotation(Q), whole(Q))
    bias, whole = one.bias(PLACES, PLACES), one.bias(PLACES[None], PLACES[None])
    if bias is not None:
        assert bias.shape == whole.shape == (1, 4, 5, 5)
        assert_close(bias, whole)


def test_a_position_that_is_called_says_which_hooks_to_call():
    for name in registry("position").names():
        with pytest.raises(BadOption, match="is not called, its hooks are"):
            create("position", name, **SUPPLIED)(X)


@pytest.mark.parametrize("kind", ["norm", "pooling"])
@pytest.mark.parametrize(
    ("valid", "said"),
    [
        (torch.ones(2, 5), "not torch.float32 (2, 5)"),
        (torch.ones(2, 4, dtype=torch.bool), "not torch.bool (2, 4)"),
        (Mask(), "not Mask"),
    ],
)
def test_what_is_no_padding_mask_is_refused(kind, valid, said):
    for name in registry(kind).own_names():
        part = create(kind, name, dim=16)
        with pytest.raises(BadOption, match=re.escape(said)):
            part(X, valid)


@pytest.mark.parametrize("kind", ["norm", "pooling", "mixer"])
def test_input_of_another_width_is_an_error_that_names_it(kind):
    for name in registry(kind).names():
        part = create(kind, name, **{"dim": 16} | ({"heads": 4} if name == "multihead" else {}))
        if "dim" in part.built_for:
            with pytest.raises(BadOption, match=r"16.*\(2,? 5,? 8\)"):
                part(X[..., :8])


def test_attention_says_what_it_wants_instead():
    attention = create("attention", "cosine", heads=4)
    with pytest.raises(BadOption, match=r"\(b h q c\), not \(2, 5, 16\): split the heads"):
        attention(X, X, X)
    with pytest.raises(BadOption, match=re.escape("create(\"weighting\", ...), not 'sparsemax'")):
        attention(Q, Q, Q, weighting="sparsemax")
    with pytest.raises(BadOption, match=r"must be a tfzoo\.Mask, not Tensor"):
        create("mixer", "gru", dim=16)(X, torch.ones(2, 5, dtype=torch.bool))
    with pytest.raises(BadOption, match="two masks: pass one"):
        create("mixer", "gru", dim=16)(X, Mask(), mask=Mask())
