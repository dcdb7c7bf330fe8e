"""The options of a stack are checked wherever they are built, and are written once."""

import inspect
from dataclasses import fields

import pytest
import torch

import tfzoo
from tfzoo.components.mixer.multihead import SelfAttention
from tfzoo.errors import BadOption, Clash, UnknownName
from tfzoo.models.options import STACK_KEYS, StackOptions

NAN, INF = float("nan"), float("inf")
RATES = ("dropout", "attention_dropout", "feedforward_dropout")
SIZES = ("heads", "head_dim", "value_head_dim", "kv_heads", "max_length")


@pytest.mark.parametrize(
    "build",
    [
        SelfAttention,
        lambda dim, options: tfzoo.Encoder(dim, options.heads),
        lambda dim, options: tfzoo.DecoderLayer(dim, options.heads),
        lambda dim, options: tfzoo.Transformer(20, dim, options.heads),
    ],
    ids=["self-attention", "encoder", "decoder layer", "model"],
)
def test_every_block_refuses_heads_that_do_not_divide_its_width(build):
    with pytest.raises(BadOption, match=r"^heads=3 do not divide dim=8\. .*one of \[1, 2, 4, 8\]"):
        build(8, StackOptions(heads=3))
    with pytest.raises(BadOption, match=r"dim=0 must be a whole number at least 1"):
        build(0, StackOptions(heads=2))


@pytest.mark.parametrize(
    "wrong",
    [
        *({"temperature": value} for value in (0.0, -1.0, NAN, INF)),
        *({name: value} for name in RATES for value in (-0.1, 1.0, NAN)),
        *({name: value} for name in SIZES for value in (0, -1, 1.5)),
        {"layers": -1},
        {"layers": "two"},
        {"heads": 4, "kv_heads": 3},
        {"share_query_key": True, "kv_heads": 1},
        {"parallel": "middle"},
        {"window": 0},
        {"cap": 0.0},
        {"query_key_norm": {"norm": "rms", "over": "row"}},
        {"query_key_norm": "rms"},
        {"pattern": []},
        {"pattern": [{"layers": 2}]},
        {"projections": "none", "kv_heads": 1},
    ],
    ids=str,
)
def test_options_out_of_range_are_refused_where_they_are_made(wrong):
    with pytest.raises(BadOption, match=next(reversed(wrong))):
        StackOptions(**wrong)
    with pytest.raises(BadOption):
        StackOptions().updated(wrong)


def test_a_layer_has_the_options_that_are_not_of_a_whole_stack():
    layer = inspect.signature(tfzoo.DecoderLayer).parameters
    options = {field.name for field in fields(StackOptions)}
    assert options & layer.keys() == options - {*STACK_KEYS}


BASE = {"dim": 512, "heads": 8, "layers": 6, "scale_embeddings": True}  # Vaswani et al. 2017


def test_what_is_not_given_is_as_in_the_base_model():
    stacks = [tfzoo.Encoder, tfzoo.Decoder, tfzoo.EncoderLayer, tfzoo.DecoderLayer]
    with torch.device("meta"):
        built = [cls(512) for cls in [*stacks, tfzoo.Transformer, tfzoo.LanguageModel]]
        built += [tfzoo.MaskedLanguageModel(9), tfzoo.TransformerClassifier(9, 2)]
    for model in built:
        own = {key: model.config[key] for key in BASE.keys() & model.config}
        assert own.items() <= BASE.items()


def test_means_within_a_window_make_no_tokens_equal():
    tfzoo.Encoder(8, 2, 1, weighting="uniform", residual="none", position="none", window=2)


def test_options_of_one_side_that_nothing_there_reads_are_refused():
    with pytest.raises(Clash, match=r"^encoder: nothing reads gate"):
        tfzoo.Transformer(20, 8, 2, 1, encoder={"mixer": "fourier", "gate": True})


def test_the_norm_of_embeddings_mixes_no_tokens():
    with pytest.raises(BadOption, match=r"embedding_norm must mix no tokens: .*layer"):
        tfzoo.Encoder(8, 2, 1, embedding_norm="batch")


@pytest.mark.parametrize("key", STACK_KEYS)
def test_layers_of_a_pattern_differ_in_options_of_layers(key):
    with pytest.raises(BadOption, match=f"pattern: {key} belongs to the stack"):
        tfzoo.Encoder(8, 2, 1, pattern=[{key: None}])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"query_key_norm": {"norm": "instance"}}, Clash, "norm 'instance', which mixes tokens"),
        ({"query_key_norm": {"norm": "rsm"}}, UnknownName, "Did you mean 'rms'"),
        ({"query_key_norm": {"over": "head"}}, BadOption, "must be {norm: NAME, over"),
        ({"projections": "none", "head_dim": 4}, BadOption, "projections: none .* head_dim"),
        ({"projections": "none", "share_query_key": True}, BadOption, "none leaves .* share_q"),
        ({"cap": -1.0}, BadOption, "cap=-1.0 must be a finite number at least 0.001"),
        ({"allow": "leaky-norm"}, BadOption, r"allow is a list of rules: allow=\['leaky-norm'\]"),
        ({"gate": "maybe"}, BadOption, "gate must be bool, not 'maybe'"),
        ({"pattern": [{"position": "learned"}]}, BadOption, "position 'learned' adds to"),
        ({"pattern": [{"windw": 3}]}, BadOption, r"pattern.0 has no option 'windw'. Did you"),
        ({"pattern": [{}, {"window": 0}]}, BadOption, r"pattern.1.window=0 must be a whole"),
        ({"pattern": [{"position": "rotary", "attention": "additive"}]}, Clash, "'rotary' rotates"),
        ({"pattern": {"window": 3}}, BadOption, "pattern must be a list such as"),
        ({"parallel": "one_norm", "residual": "post"}, BadOption, "use residual: pre"),
        ({"parallel": "one_norm", "feedforward": "none"}, BadOption, "feedforward other than none"),
        ({"parallel": "one_norm", "first_norm": False}, BadOption, "first_norm: false does"),
    ],
    ids=str,
)  # fmt: skip
def test_a_wrong_choice_is_refused_in_one_line(options, error, message):
    with pytest.raises(error, match=message) as caught:
        tfzoo.Encoder(8, 2, 2, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("side", ["encoder", "decoder"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"heads": 3}, ": heads=3 do not divide dim=8"),
        ({"pattern": [{"window": 0}]}, r"\.pattern\.0\.window=0 must be"),
        ({"pattern": [{"position": "rotary", "attention": "additive"}]}, r"\.pattern\.0: .*rot"),
    ],
    ids=str,
)
def test_a_wrong_option_of_one_side_names_the_side(side, options, message):
    with pytest.raises((BadOption, Clash), match=f"^{side}{message}"):
        tfzoo.Transformer(20, 8, 2, 1, **{side: options})


@pytest.mark.parametrize(
    "options",
    [{"pattern": [{"window": 0}]}, {"feedforward": {"name": "relu", "hidden": 0}}],
    ids=str,
)
def test_a_wrong_option_of_both_sides_names_none(options):
    with pytest.raises(BadOption, match=r"^(pattern|feedforward)"):
        tfzoo.Transformer(20, 8, 2, 1, **options, encoder={"norm": "rms"})


def test_a_derived_model_may_fix_options_that_it_does_not_take():
    class Small(tfzoo.LanguageModel):
        def __init__(self, width):
            super().__init__(vocab_size=20, dim=width, heads=2, layers=1)

    assert Small(8).config["dim"] == 8
