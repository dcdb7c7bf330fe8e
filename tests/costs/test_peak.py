"""What a training step will take is what PyTorch's allocator holds at its peak."""

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from tfzoo import LanguageModel, Transformer, TransformerClassifier
from tfzoo.learning.settings import Compute
from tfzoo.training.cost import example_loss, step_cost

ADDITIVE = {"attention": "additive"}
GRU = {"mixer": "gru", "position": "none"}
DAILY: dict[str, tuple[Any, dict[str, Any]]] = {
    "translator": (Transformer, {}),
    "additive": (Transformer, ADDITIVE),
    "recompute": (TransformerClassifier, {"recompute": True}),
    "bf16": (TransformerClassifier, {"bf16": True, "weighting": "entmax"}),
}
NIGHTLY: dict[str, tuple[Any, dict[str, Any]]] = {
    "additive, classifier": (TransformerClassifier, ADDITIVE),
    "gru": (TransformerClassifier, GRU),
    "mixers": (TransformerClassifier, {"mixer": "linear_attention"}),
    "mixture": (TransformerClassifier, {"feedforward": "mixture"}),
    "weightings": (TransformerClassifier, {"weighting": "sparsemax"}),
    "cosine": (TransformerClassifier, {"attention": "cosine", "norm": "batch"}),
    "recompute, translator": (Transformer, {"recompute": True, **ADDITIVE}),
    "language model": (LanguageModel, {"position": "rotary"}),
}
SLOW = [pytest.param(one, id=name, marks=pytest.mark.nightly) for name, one in NIGHTLY.items()]
ROWS, LENGTH = 8, 64


def build(kind, options):
    torch.manual_seed(0)
    own = {key: one for key, one in options.items() if key not in ("recompute", "bf16")}
    sizes = (500, 3) if kind is TransformerClassifier else (500,)
    model = kind(*sizes, 32, 4, 2, **own).train()
    Compute(activation_checkpointing="recompute" in options).apply(model)
    return model


def total(model, options):
    with torch.autocast("cpu", torch.bfloat16) if "bf16" in options else nullcontext():
        return example_loss(model, ROWS, LENGTH)


@pytest.mark.parametrize("case", [*(pytest.param(v, id=k) for k, v in DAILY.items()), *SLOW])
def test_the_peak_of_a_step_is_that_of_the_allocator(case):
    kind, options = case
    found = step_cost(lambda: build(kind, options), lambda model: total(model, options))
    model = build(kind, options)
    total(model, options).backward()  # what is allocated once
    model.zero_grad()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        total(model, options).backward()
    events = profiler.profiler.kineto_results.events()
    held, peak = 0, 0
    for event in sorted((e for e in events if e.name() == "[memory]"), key=lambda e: e.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    assert found.peak - found.parameters == pytest.approx(peak, rel=0.1)


def test_an_estimate_draws_no_random_numbers():
    """A training without it would otherwise have other results."""
    torch.manual_seed(1)
    state = torch.get_rng_state()
    options = {"dropout": 0.1, "attention_dropout": 0.1}
    step_cost(lambda: Transformer(500, 32, 4, 2, **options), lambda model: total(model, options))
    assert torch.equal(torch.get_rng_state(), state)
