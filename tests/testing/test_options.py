"""Every option of a model and of a stack changes what it should; none is accepted and unused."""

import inspect
from dataclasses import fields
from functools import cache
from typing import Any

import pytest
import torch

from tfzoo.base.registry import create, registry
from tfzoo.models.classifier import TransformerClassifier
from tfzoo.models.options import StackOptions
from tfzoo.models.stack import Stack
from tfzoo.models.transformer import Transformer
from tfzoo.testing.component import differs
from tfzoo.testing.samples import randomize
from tfzoo.testing.subject import SOURCE, TEXT

PLAIN: dict[str, Any] = {
    "vocab_size": 12,
    "dim": 16,
    "heads": 4,
    "layers": 2,
    "dropout": 0.0,
    "position": "learned",
    "max_length": 20,
}

OTHER: dict[str, Any] = {
    "vocab_size": 13,
    "dim": 20,
    "heads": 2,
    "layers": 1,
    "attention": "cosine",
    "norm": "rms",
    "position": "alibi",
    "feedforward": "gelu",
    "head_dim": 6,
    "value_head_dim": 7,
    "kv_heads": 2,
    "share_query_key": True,
    "temperature": 1.7,
    "dropout": 0.3,
    "attention_dropout": 0.3,
    "feedforward_dropout": 0.3,
    "cap": 2.0,
    "window": 3,
    "query_key_norm": {"norm": "rms"},
    "bias": False,
    "gate": True,
    "head_scale": True,
    "projections": "none",
    "weighting": "sigmoid",
    "mixer": "average",
    "parallel": "two_norms",
    "pattern": [{"attention": "cosine"}, {}],
    "residual": "post",
    "embedding_norm": "rms",
    "embedding_projection": True,
    "first_norm": False,
    "max_length": 30,
    "like": "llama",
    "scale_embeddings": False,
    "tie": "none",
    "source_vocab_size": 15,
    "encoder": {"layers": 1},
    "decoder": {"layers": 1},
    "head_bias": True,
}
"""Another value for each; what is missing here is not an option, see the first test."""

OF_CLASSIFIERS: dict[str, Any] = {
    "vocab_size": 13,
    "classes": 6,
    "dim": 20,
    "parallel": "two_norms",
    "pooling": "max",
    "pooled_dropout": 0.3,
    "causal": True,
    "scale_embeddings": False,
    "token_head": "prediction_head",
}
"""The same of what a translator does not have, or may not."""
ALONGSIDE = {"source_vocab_size": {"tie": "target"}, "token_head": {"pooling": None}}
OF_STACKS = [field.name for field in fields(StackOptions)]
START = {"allow", "init_std", "embedding_std"}
"""What changes only what is refused, or how parameters start: tests/models."""


def built(cls=Transformer, **options):
    classes = {"classes": 5} if cls is TransformerClassifier else {}
    return cls(**{**PLAIN, **classes, **options})


def computed(cls=Transformer, **options):
    """Parameters and outputs, in training and outside, all drawn from one seed."""
    torch.manual_seed(0)
    module, ids = built(cls, **options), (SOURCE, TEXT) if cls is Transformer else (TEXT,)
    randomize(module)
    with torch.no_grad():
        torch.manual_seed(1)
        return [*module.parameters(), module.train()(*ids), module.eval()(*ids)]


unchanged = cache(computed)


def test_the_tables_have_every_option():
    translator, classifier = (
        {*inspect.signature(one).parameters} - START for one in (Transformer, TransformerClassifier)
    )
    assert translator == OTHER.keys()
    assert translator >= {*OF_STACKS}
    assert classifier - {*OF_STACKS} - {"like", "token_types"} <= OF_CLASSIFIERS.keys()


@pytest.mark.parametrize(
    ("cls", "option"),
    [(Transformer, one) for one in sorted(OTHER.keys() - {"parallel"})]  # which decoders cannot be
    + [(TransformerClassifier, one) for one in OF_CLASSIFIERS],
    ids=lambda one: {Transformer: "translator", TransformerClassifier: "classifier"}.get(one, one),
)
def test_every_option_of_a_model_changes_something(cls, option):
    value = (OTHER if cls is Transformer else OF_CLASSIFIERS)[option]
    alongside = ALONGSIDE.get(option, {})
    before = unchanged(cls, **alongside)
    assert differs(computed(cls, **alongside, **{option: value}), before)


@pytest.mark.parametrize(
    ("side", "option"),
    [("encoder", option) for option in OF_STACKS]
    + [("decoder", option) for option in OF_STACKS if option != "parallel"],
)
def test_every_option_of_a_stack_changes_its_side_alone(side, option):
    torch.manual_seed(0)
    model = built(**{side: {option: OTHER[option]}})
    stacks = {"encoder": model.encoder, "decoder": model.decoder}
    changed, other = stacks.pop(side), *stacks.values()
    plain = built()
    assert repr(other) == repr(getattr(plain, next(iter(stacks))))
    assert differs(computed(**{side: {option: OTHER[option]}}), unchanged())
    assert changed is not other


def test_a_position_is_told_where_it_stands(position):
    """It acts in a stack as it does alone, in a decoder and not, near and far."""
    for causal in (False, True):
        if causal and "needs_length" in position.traits:
            continue
        supplied = {"dim": 16, "heads": 4, "head_dim": 6, "max_length": 50}
        options = StackOptions(layers=0, heads=4, head_dim=6, max_length=50, position=position.name)
        stack = Stack(16, options, causal=causal, cross=False, allow=())
        alone = create("position", position.name, **supplied, causal=causal)
        alone.load_state_dict(randomize(stack.position).state_dict())
        pos = torch.tensor([[0, 1, 7, 12, 30, 49]])
        x, heads = torch.randn(1, 6, 16), torch.randn(1, 4, 6, 6)
        for one, other in (
            (stack.position.embed(x, pos, pos[:, -1:]), alone.embed(x, pos, pos[:, -1:])),
            (stack.position.bias(pos, pos), alone.bias(pos, pos)),
            *[
                (one and one(heads), other and other(heads))
                for one, other in [(stack.position.angles(pos), alone.angles(pos))]
            ],
        ):
            torch.testing.assert_close(one, other)


@pytest.mark.parametrize(
    "options",
    [{"dropout": 0.4, "residual": name} for name in registry("residual").names()]
    + [{"attention_dropout": 0.4}, {"feedforward_dropout": 0.4}],
    ids=lambda options: "-".join(map(str, options.values())),
)
def test_dropout_acts_in_training_and_nowhere_else(options):
    torch.manual_seed(0)
    model = built(**options)
    randomize(model)
    with torch.no_grad():
        model.eval()
        assert torch.equal(model(SOURCE, TEXT), model(SOURCE, TEXT))
        model.train()
        assert not torch.equal(model(SOURCE, TEXT), model(SOURCE, TEXT))


def test_scores_are_divided_by_the_temperature():
    model, other = (built(temperature=t) for t in (1.0, 2.0))
    randomize(model)
    other.load_state_dict(model.state_dict())
    with torch.no_grad():
        for name, parameter in other.named_parameters():
            if ".query." in name:
                parameter.mul_(2.0)
    torch.testing.assert_close(other(SOURCE, TEXT), model(SOURCE, TEXT), rtol=1e-4, atol=1e-5)


def test_one_projection_for_queries_and_keys_equals_two_that_are_equal():
    one, two = (built(share_query_key=share) for share in (True, False))
    state = randomize(one).state_dict()
    for name in [name for name in state if ".query." in name]:
        state[name.replace(".query.", ".key.")] = state[name]
    two.load_state_dict(state)
    torch.testing.assert_close(one(SOURCE, TEXT), two(SOURCE, TEXT))


@pytest.mark.parametrize("by", ["scaled_dot_product", "additive"])
def test_keys_and_values_are_shared_by_neighbouring_heads(by):
    """Heads 0 and 1 have the first, 2 and 3 the second, as in Llama and T5."""
    few, many = (built(attention=by, kv_heads=n) for n in (2, None))
    randomize(few)
    spread = {}
    for name, value in few.state_dict().items():
        if ".key." in name or ".value." in name:
            value = value.unflatten(0, (2, -1)).repeat_interleave(2, 0).flatten(0, 1)
        spread[name] = value
    many.load_state_dict(spread)
    torch.testing.assert_close(few(SOURCE, TEXT), many(SOURCE, TEXT), rtol=1e-4, atol=1e-5)


def test_embeddings_are_tied_as_told():
    for tie, different in (("all", 1), ("target", 2), ("none", 3)):
        model = built(tie=tie)
        target = {id(model.target_embedding.weight), id(model.output_weight)}
        assert len(target) == (2 if tie == "none" else 1)
        assert len({id(model.source_embedding.weight), *target}) == different


def test_embeddings_are_scaled_as_told():
    scaled, plain = (built(scale_embeddings=scale) for scale in (True, False))
    torch.testing.assert_close(
        scaled.target_embedding(TEXT), 4.0 * scaled.target_embedding.weight[TEXT]
    )
    torch.testing.assert_close(plain.target_embedding(TEXT), plain.target_embedding.weight[TEXT])


@pytest.mark.parametrize("connection", ["pre", "post", "none"])
def test_layers_of_nothing_pass_on_what_they_get_if_there_is_a_residual_connection(connection):
    model = built(residual=connection, norm="none", position="none")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".output." in name or ".outer." in name:
                parameter.zero_()
    expected = model.source_embedding(SOURCE) * (connection != "none")
    torch.testing.assert_close(model.encode(SOURCE), expected)
