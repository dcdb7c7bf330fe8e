"""Every contract of every component; traits are checked and not believed."""

from dataclasses import replace
from itertools import islice

import pytest
import torch

from tfzoo.base.kinds import KINDS
from tfzoo.base.registry import registry
from tfzoo.testing import Result, check, derivatives, runner
from tfzoo.testing.contract import run_contract
from tfzoo.testing.runner import contracts, rules_of_style
from tfzoo.testing.samples import COMPONENT_KINDS

ENTRIES = [
    registry(kind).entry(name) for kind in COMPONENT_KINDS for name in registry(kind).names()
]

DIFFERENTIABLE = ("attention", "position", "feedforward", "pooling")
"""Kinds whose parts refuse no derivative; norms: tests/test_transforms.py, in evaluation."""


@pytest.fixture
def warns_each_time():
    """PyTorch gives a warning not only once a process."""
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    yield
    torch.set_warn_always(before)


@pytest.mark.filterwarnings("error::UserWarning:tfzoo")
@pytest.mark.usefixtures("warns_each_time")
def test_a_component_holds_every_contract(component, monkeypatch):
    """Parts of tfzoo's own do not refuse second derivatives and ``torch.func``, as others may.
    No line of tfzoo makes PyTorch warn.
    """

    def raised(error):
        raise error

    if component.kind in DIFFERENTIABLE:
        monkeypatch.setattr(derivatives, "_clear", raised)
    results = [
        run_contract(contract, component)
        for contract in [*contracts(component.kind), *rules_of_style(component.kind)]
    ]
    assert {result.name: result.message for result in results if not result.ok} == {}


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: f"{entry.kind}-{entry.name}")
def test_a_trait_is_noticed_when_claimed_falsely_and_when_kept_quiet(entry):
    for trait in sorted(KINDS[entry.kind].traits):
        if "mixes_tokens:always" in entry.traits and trait == "mixes_tokens:training":
            continue  # who mixes always mixes in training
        if trait == "breaks_graph" and entry.name not in ("gru", "none"):
            continue  # compiling takes seconds, and is tested for each component
        ending = "it_computes_the_same" if trait == "breaks_graph" else "says_the_truth"
        truths = [one for one in contracts(entry.kind) if one.__name__.endswith(ending)]
        lying = replace(entry, traits=entry.traits ^ {trait})
        assert not all(run_contract(contract, lying).ok for contract in truths), trait


def test_check_names_each_contract(monkeypatch):
    every = runner.neighbours
    monkeypatch.setattr(runner, "neighbours", lambda *given: islice(every(*given), 2))
    results = list(check("norm", "rms"))
    assert all(isinstance(result, Result) and result.ok for result in results), [
        result for result in results if not result.ok
    ]
    assert "mixes tokens says the truth" in {result.name for result in results}
    assert "in stacks, one token at a time equals all at once" in {
        result.name for result in results
    }


def test_a_kind_without_contract_tests_says_so(monkeypatch):
    monkeypatch.setattr("tfzoo.testing.runner.CONTRACTS", {})
    (result,) = check("schedule", "constant")
    assert result.ok
    assert "nothing was checked" in result.name
