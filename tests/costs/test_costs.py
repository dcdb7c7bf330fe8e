"""What ``tfzoo cost`` says is what PyTorch counts, what its allocator holds, and what the algebra
gives.
"""

from functools import partial
from typing import Any

import pytest
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

from tests.daily import sampled
from tfzoo import Transformer, TransformerClassifier
from tfzoo.base.registry import registry
from tfzoo.commands.main import main
from tfzoo.training.step_cost import BACKWARD, OUTPUT, Counter, Growth, Sizes, count, growth, loss

DIM, LAYERS, VOCABULARY = 32, 2, 50
SIZES = Sizes(rows=3, length=12)
small = partial(Transformer, VOCABULARY, DIM, 4, LAYERS)
MODELS: dict[str, dict[str, Any]] = {
    "additive": {"attention": "additive"},
    "sink, grouped": {"weighting": "sink", "kv_heads": 2, "dropout": 0.0},
    "rotary, gated": {"norm": "rms", "position": "rotary", "feedforward": "swiglu"},
    "dropout": {"attention_dropout": 0.1},
}
RECURRENT: dict[str, Any] = {"mixer": "gru", "position": "none"}


@pytest.mark.parametrize(
    "options",
    sampled([*MODELS.values(), RECURRENT], [MODELS["additive"], MODELS["sink, grouped"]]),
    ids=[*MODELS, "recurrent"],
)
def test_products_are_those_of_torchs_counter(options):
    """It leaves out the CPU's attention kernel, which dropout avoids, and the in-place product by
    which the loss adds up the gradient of the output's weight.
    """
    options = {**options, "attention_dropout": 0.1}
    in_place = 2 * VOCABULARY * DIM * SIZES.rows * SIZES.length
    found = count(lambda: small(**options), SIZES)
    model = small(**options)
    with Counter(model).running("loss"), FlopCounterMode(display=False) as counter:
        loss(model, SIZES, Counter(model)).backward()
    assert sum(cost.products for cost in found.values()) == (counter.get_total_flops() + in_place)


@pytest.mark.parametrize(
    "options",
    sampled([{}, *MODELS.values()], [{}, MODELS["additive"]]),
    ids=["default", *MODELS],
)
def test_saved_bytes_are_those_that_the_allocator_holds(options):
    sizes = Sizes(16, 24)
    saved = sum(cost.saved for cost in count(lambda: small(**options), sizes).values())
    model = small(**options)
    loss(model, sizes, Counter(model))  # what is allocated once
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        kept = loss(model, sizes, Counter(model))
    held = sum(event.self_cpu_memory_usage for event in profiler.key_averages())
    assert kept.requires_grad
    assert saved == pytest.approx(held, rel=0.02)


def test_formulas_are_those_of_the_algebra():
    """A multiplication and an addition are two operations. The loss computes its gradients with
    itself.
    """
    found = growth(lambda: small(feedforward={"name": "relu", "hidden": 4 * DIM}), 256)
    square = LAYERS * DIM**2
    expected = {
        "encoder mixer multihead": Growth(0, 8 * square, 0),
        "encoder attention scaled_dot_product": Growth(0, 0, 4 * LAYERS * DIM),
        "encoder feedforward relu": Growth(0, 16 * square, 0),
        "decoder cross-attention projections": Growth(0, 8 * square, 0),
        "decoder cross-attention attention scaled_dot_product": Growth(0, 0, 4 * LAYERS * DIM),
        OUTPUT: Growth(0, 6 * VOCABULARY * DIM, 0),
    }
    for part, growing in expected.items():
        for name, value in vars(growing).items():
            assert vars(found[part])[name] == pytest.approx(value, abs=1e-3 * square), part


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind in ("mixer", "feedforward") for name in registry(kind).own_names()],
)
def test_every_part_is_counted(kind, name):
    """Also those that need data in order to know their shapes."""

    def build():
        return TransformerClassifier(50, 3, 16, 2, 1, position="none", **{kind: name})

    found = count(build, Sizes(2, 8))
    assert sum(cost.parameters for cost in found.values()) == sum(
        parameter.numel() for parameter in build().parameters()
    )
    part = found.get(f"encoder {kind} {name}")
    assert part is None or part.values + part.products > 0
    assert found[BACKWARD].products > 0
    assert found[BACKWARD].saved == 0


def test_a_model_that_classifies_tokens_is_counted():
    found = count(lambda: TransformerClassifier(50, 3, 16, 2, 1, pooling=None), Sizes(2, 8))
    assert found["head"].products == 2 * 16 * 16 * 3


def test_parts_are_listed_in_the_order_of_the_model():
    parts = list(count(small, SIZES))
    listed = ("encoder attention scaled_dot_product", "encoder feedforward relu", "decoder")
    assert sorted(map(parts.index, listed)) == [parts.index(part) for part in listed]


def test_nothing_is_computed_where_shapes_suffice():
    """A model of 10^12 numbers is counted."""
    found = count(lambda: Transformer(10**6, 2**18, 8, 1), Sizes(1, 4))
    assert sum(cost.parameters for cost in found.values()) > 10**12


def test_the_command_prints_a_row_a_part(capsys):
    assert main(["cost", "translation/numbers", "--length", "16"]) == 0
    printed = capsys.readouterr().out
    assert "numbers: 64 texts of 16 tokens, vocabulary of 420, fp32" in printed
    assert "encoder attention scaled_dot_product" in printed
    assert "6 V D L" in printed
    assert "Products with L^2 are" in printed


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ((), "cost needs a recipe"),
        (
            ("translation/numbers", "--length", "0"),
            "--length 0: must be a whole number of at least 4",
        ),
        (("translation/numbers", "--lenght", "8"), "Did you mean '--length'"),
        (("translation/numbers", "--data.tokenizer", "bytes"), "give --vocabulary N"),
    ],
)
def test_bad_input_is_one_line(args, says, capsys):
    assert main(["cost", *args]) == 2
    assert says in capsys.readouterr().err
