"""``tfzoo cost`` says what PyTorch counts, its allocator holds and the algebra gives."""

from functools import partial
from typing import Any

import pytest
import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

from tests.daily import sampled
from tfzoo import Transformer, TransformerClassifier
from tfzoo.base.registry import registry
from tfzoo.commands.main import main
from tfzoo.learning.optim import Optim
from tfzoo.training.cost import OUTPUT, example_loss, step_cost

DIM, LAYERS, VOCABULARY = 32, 2, 50
ROWS, LENGTH = 3, 12
small = partial(Transformer, VOCABULARY, DIM, 4, LAYERS)
MODELS: dict[str, dict[str, Any]] = {
    "additive": {"attention": "additive"},
    "sink, grouped": {"weighting": "sink", "kv_heads": 2, "dropout": 0.0},
    "rotary, gated": {"norm": "rms", "position": "rotary", "feedforward": "swiglu"},
    "dropout": {"attention_dropout": 0.1},
}
RECURRENT: dict[str, Any] = {"mixer": "gru", "position": "none"}


def count(build, rows=ROWS, length=LENGTH):
    return step_cost(build, lambda model: example_loss(model, rows, length))


@pytest.mark.parametrize(
    "options",
    sampled([*MODELS.values(), RECURRENT], [MODELS["additive"], MODELS["sink, grouped"]]),
    ids=[*MODELS, "recurrent"],
)
def test_flops_are_those_of_torchs_counter(options):
    """Which leaves out the loss's in-place product; dropout avoids a kernel it cannot see."""
    options = {**options, "attention_dropout": 0.1}
    in_place = 2 * VOCABULARY * DIM * ROWS * LENGTH
    found = count(lambda: small(**options))
    model = small(**options)
    with FlopCounterMode(display=False) as counter:
        example_loss(model, ROWS, LENGTH).backward()
    assert found.forward.flops + found.backward == counter.get_total_flops() + in_place


@pytest.mark.parametrize(
    "options", sampled([{}, *MODELS.values()], [{}, MODELS["additive"]]), ids=["default", *MODELS]
)
def test_activations_are_what_the_allocator_holds_after_the_forward_pass(options):
    found = count(lambda: small(**options), 16, 24).forward.activations
    model = small(**options)
    example_loss(model, 16, 24)  # what is allocated once
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        kept = example_loss(model, 16, 24)
    held = sum(event.self_cpu_memory_usage for event in profiler.key_averages())
    assert kept.requires_grad
    assert found == pytest.approx(held, rel=0.02)


def test_flops_are_those_of_the_algebra():
    """A multiplication and an addition are two; the loss computes its gradients with itself."""
    found = count(lambda: small(feedforward={"name": "relu", "hidden": 4 * DIM}), 1, LENGTH).parts
    tokens = LAYERS * LENGTH * DIM**2
    square = 4 * LAYERS * DIM * LENGTH**2
    expected = {
        "encoder mixer multihead": 8 * tokens,
        "encoder attention scaled_dot_product": square,
        "encoder feedforward relu": 16 * tokens,
        "decoder cross-attention projections": 8 * tokens,
        "decoder cross-attention attention scaled_dot_product": square,
        OUTPUT: 6 * VOCABULARY * DIM * LENGTH,
    }
    assert {part: found[part].flops for part in expected} == expected


@pytest.mark.parametrize("optimizer", ["adamw", "muon", "sgd"])
def test_bytes_of_model_gradients_and_optimizer_are_those_of_their_tensors(optimizer):
    def configure(module):
        return Optim(optimizer=optimizer).configure(module, 1)["optimizer"]

    model = small()
    made = configure(model)
    example_loss(model, ROWS, LENGTH).backward()
    made.step()
    state = [value for state in made.state.values() for value in state.values()]
    found = step_cost(small, optimizer=configure)
    assert found.parameters == sum(one.nbytes for one in (*model.parameters(), *model.buffers()))
    assert found.gradients == sum(parameter.grad.nbytes for parameter in model.parameters())
    tensors = [one for one in state if isinstance(one, torch.Tensor)]
    assert found.optimizer_state == sum(tensor.nbytes for tensor in tensors)
    assert found.peak >= found.kept


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind in ("mixer", "feedforward") for name in registry(kind).own_names()],
)
def test_every_part_is_counted(kind, name):
    """Also those that need data in order to know their shapes."""

    def build():
        return TransformerClassifier(50, 3, 16, 2, 1, position="none", **{kind: name})

    found = count(build, 2, 8)
    assert found.forward.parameters == sum(parameter.numel() for parameter in build().parameters())
    assert found.forward.activations > 0
    assert found.backward > 0


def test_a_model_that_classifies_tokens_is_counted():
    found = count(lambda: TransformerClassifier(50, 3, 16, 2, 1, pooling=None), 2, 8)
    assert found.parts["head"].flops == 2 * 16 * 16 * 3


def test_parts_are_listed_in_the_order_of_the_model():
    parts = list(count(small).parts)
    listed = ("encoder attention scaled_dot_product", "encoder feedforward relu", "decoder")
    assert sorted(map(parts.index, listed)) == [parts.index(part) for part in listed]


def test_nothing_is_computed():
    """A model of 10^12 numbers is counted."""
    found = count(lambda: Transformer(10**6, 2**18, 8, 1), 1, 4)
    assert found.forward.parameters > 10**12


def test_the_command_prints_a_row_a_part(capsys):
    assert main(["cost", "translation/numbers", "--length", "16"]) == 0
    printed = capsys.readouterr().out
    assert "translation/numbers: 64 texts of 16 tokens, vocabulary of 420, fp32" in printed
    assert "encoder attention scaled_dot_product" in printed
    assert "MB at the peak: parameters " in printed


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ((), "RECIPE is missing: tfzoo cost RECIPE"),
        (("translation/numbers", "--length", "0"), "--length=0 must be a whole number at least 1"),
        (("translation/numbers", "--lenght", "8"), "Did you mean '--length'"),
        (("translation/numbers", "--data.tokenizer", "bytes"), "give --vocabulary N"),
    ],
)
def test_bad_input_is_one_line(args, says, capsys):
    assert main(["cost", *args]) == 2
    assert says in capsys.readouterr().err
