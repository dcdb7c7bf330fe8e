"""Without the refusals that cannot be allowed, what they name breaks."""

from dataclasses import fields, replace
from functools import partial
from itertools import product
from pathlib import Path
from random import Random

import pytest
import torch

from tests.testing.allowed import violations
from tests.testing.covering import interactions
from tests.testing.rules import STACK, refused_by, traits
from tfzoo.base.kinds import KINDS
from tfzoo.base.registry import create, registry
from tfzoo.components.mixer.multihead import SelfAttention
from tfzoo.errors import Clash
from tfzoo.masks import Mask
from tfzoo.models.context import Context
from tfzoo.models.encoder_decoder import Decoder, Encoder
from tfzoo.models.options import ATTENTION_OPTIONS, StackOptions
from tfzoo.models.rules import RULES, Parts, check_clashes, options_read
from tfzoo.models.transformer import Transformer
from tfzoo.testing.contract import reproducible
from tfzoo.testing.samples import SIZES, randomize
from tfzoo.testing.stacks import (
    Combination,
    a_token_has_influence_on_itself_and_whatever_may_look_at_it,
    one_token_at_a_time_equals_all_at_once,
    padding_has_no_influence_while_training,
)
from tfzoo.testing.subject import FULL, Subject

MIXING = [name for name in registry("norm").names() if "mixes" in " ".join(traits("norm", name))]


@pytest.fixture(autouse=True)
def unchecked(monkeypatch):
    """Stacks are built whatever the rules say."""
    monkeypatch.setattr("tfzoo.models.positioned.check_clashes", lambda *args: None)


def refused(rule):
    """A combination for each pair of parts that this rule alone refuses."""
    for pair in interactions(STACK, 2):
        if refused_by(pair) == {rule}:
            yield Combination(**{"side": "encoder", **pair})


def entries(kind):
    return [registry(kind).entry(name) for name in registry(kind).own_names()]


def drawn(random):
    """Parts of any kind, that may clash."""
    kinds = {one.name: one.name for one in fields(Parts) if one.name in KINDS}
    made = {name: random.choice(entries(kind)) for name, kind in kinds.items()}
    causal, own = random.random() < 0.5, random.choice(entries("norm"))
    return Parts(**made, query_key_norm=own, causal=causal, window=False, ends_with_norm=True)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_what_a_rule_proposes_instead_it_does_not_refuse(rule):
    random = Random(0)
    parts = next(one for one in iter(lambda: drawn(random), None) if rule.broken(one))
    name = "query_key_norm" if rule.name == "mixing-query-key-norm" else rule.kind
    fit = [one for one in entries(rule.kind) if rule.fits(one)]
    assert fit
    assert not any(rule.broken(replace(parts, **{name: one})) for one in fit)
    assert f"`{rule.name}`" in Path("docs/components.md").read_text("utf-8")


def test_a_bidirectional_mixer_in_a_decoder_sees_later_tokens():
    contract = a_token_has_influence_on_itself_and_whatever_may_look_at_it
    clashing = list(refused("bidirectional-mixer"))
    assert clashing
    for one in clashing:
        with reproducible():
            found = violations(one.build(), (), [contract])
        assert "comes later" in " ".join(found.values()), one


def test_an_unread_position_changes_nothing():
    clashing = list(refused("unread-position"))
    assert clashing
    for one in clashing:
        with reproducible(), torch.no_grad():
            subject = one.build()
            before = subject(FULL)
            subject.stacks[0].position = create("position", "none")
            torch.testing.assert_close(subject(FULL), before, rtol=0, atol=0)


def test_weights_that_are_zero_leave_only_a_bias_to_learn():
    clashing = list(refused("zero-weights"))
    assert clashing
    for one in clashing:
        with reproducible():
            parts = {"attention": one.attention, "weighting": one.weighting}
            block = SelfAttention(SIZES["dim"], StackOptions(heads=SIZES["heads"], **parts))
            randomize(block)
            x, pos = torch.randn(2, 5, SIZES["dim"]), torch.arange(5)[None]
            out = block(x, Context(Mask(), pos, pos), 0)
            bias = block.output.bias
            torch.testing.assert_close(out, bias.expand_as(out), rtol=0, atol=0)
            others = [parameter for parameter in block.parameters() if parameter is not bias]
            for found in torch.autograd.grad(out.square().sum(), others, allow_unused=True):
                assert found is None or not found.any()


def test_means_without_a_residual_connection_make_all_tokens_the_same():
    means, replacing = (
        [name for name in registry(kind).names() if trait in traits(kind, name)]
        for kind, trait in (("weighting", "ignores_scores"), ("residual", "replaces"))
    )
    assert means
    assert replacing
    for weighting, residual in product(means, replacing):
        with reproducible():
            out = Combination("encoder", weighting=weighting, residual=residual).build()(FULL)
        torch.testing.assert_close(out, out[:, :1].expand_as(out), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", MIXING)
def test_a_norm_of_queries_and_keys_that_mixes_tokens_knows_no_mask_and_no_cache(name):
    with reproducible():
        options = {"cross_attention": False, "dropout": 0.0, "query_key_norm": {"norm": name}}
        stack = Decoder(SIZES["dim"], SIZES["heads"], 2, **options)
        randomize(stack)
        subject = Subject(stack.eval())
        contracts = [
            one_token_at_a_time_equals_all_at_once,
            padding_has_no_influence_while_training,
        ]
        assert violations(subject, (), contracts)


@pytest.mark.parametrize("name", registry("norm").names())
def test_queries_and_keys_may_have_any_norm_that_mixes_no_tokens(name):
    options = StackOptions(query_key_norm={"norm": name})
    if name in MIXING:
        with pytest.raises(Clash, match="mixing-query-key-norm"):
            check_clashes(options.parts(causal=False))
    else:
        check_clashes(options.parts(causal=False))


ATTENTION = {
    "attention": "additive",
    "attention_dropout": 0.1,
    "bias": False,
    "cap": 2.0,
    "gate": True,
    "head_dim": 5,
    "head_scale": True,
    "kv_heads": 1,
    "projections": "none",
    "query_key_norm": {"norm": "rms"},
    "share_query_key": True,
    "temperature": 1.7,
    "value_head_dim": 3,
    "weighting": "sparsemax",
}
WITHOUT = [name for name in registry("mixer").names() if "attends" not in traits("mixer", name)]


@pytest.mark.parametrize("name", WITHOUT)
def test_an_option_of_attention_changes_nothing_where_there_is_none(name, monkeypatch):
    assert {"heads", *ATTENTION} == ATTENTION_OPTIONS
    parts = {"mixer": name, "position": "none"}
    build = partial(Encoder, SIZES["dim"], SIZES["heads"], layers=1, **parts)
    read = options_read(registry("mixer").entry(name))
    build(**{option: value for option, value in ATTENTION.items() if option in read})
    unread = {option: value for option, value in ATTENTION.items() if option not in read}
    for option, value in unread.items():
        with pytest.raises(Clash, match=f"nothing reads {option}: .* mixer '{name}' reads"):
            build(**{option: value})
    assert build(layers=0, gate=True).config["gate"]
    monkeypatch.setattr("tfzoo.models.constructor.check_attention_options", lambda *args: None)
    for option, value in unread.items():
        with reproducible():
            plain, other = build().eval(), build(**{option: value}).eval()
            other.load_state_dict(plain.state_dict())
            x = torch.randn(2, 5, SIZES["dim"])
            torch.testing.assert_close(other(x), plain(x), rtol=0, atol=0)


def test_an_option_of_one_side_or_some_layers_is_read_there():
    build = partial(Transformer, 12, 8, 2, 2, position="none")
    for name, value in ATTENTION.items():
        without = {"mixer": "gru", name: value}
        for options, where in (
            ({"encoder": without}, "encoder: "),
            ({"encoder": {"mixer": "gru", "pattern": [{}, {name: value}]}}, "encoder.pattern.1: "),
        ):
            with pytest.raises(Clash, match=f"^{where}nothing reads {name}: .* mixer 'gru' reads"):
                build(**options)
        with pytest.raises(Clash, match=rf"^pattern.1: nothing reads {name}"):
            Encoder(8, 2, 2, position="none", pattern=[{}, without])
        build(decoder=without)  # its cross-attention does
        build(encoder={"pattern": [{"mixer": "gru"}, {name: value}]})
