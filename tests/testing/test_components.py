"""Every contract of every component; traits are checked and not believed."""

from dataclasses import replace

import pytest
import torch

from tests.testing import rare
from tfzoo.base.kinds import KINDS
from tfzoo.base.registry import registry
from tfzoo.testing import Result, check
from tfzoo.testing.contract import run_contract
from tfzoo.testing.runner import contracts
from tfzoo.testing.samples import COMPONENT_KINDS

ENTRIES = [
    registry(kind).entry(name) for kind in COMPONENT_KINDS for name in registry(kind).names()
]


@pytest.fixture
def warns_each_time():
    """PyTorch gives a warning not only once a process."""
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    yield
    torch.set_warn_always(before)


@pytest.mark.filterwarnings("error::UserWarning:tfzoo")
@pytest.mark.usefixtures("warns_each_time")
def test_a_component_holds_every_contract(component):
    """And no line of tfzoo makes PyTorch warn."""
    asked = [*contracts(component.kind), *rare.CONTRACTS.get(component.kind, ())]
    results = [run_contract(contract, component) for contract in asked]
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


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: f"{entry.kind}-{entry.name}")
def test_the_docstring_holds_the_formula_and_names_every_option(entry):
    said = vars(entry.cls).get("__doc__") or ""
    assert "``" in said
    assert [option for option in entry.options if option not in said] == []


def test_check_names_each_contract():
    results = list(check("norm", "rms"))
    assert all(isinstance(result, Result) and result.ok for result in results), [
        result for result in results if not result.ok
    ]
    assert "mixes tokens says the truth" in {result.name for result in results}
    assert "in a decoder, one token at a time equals all at once" in {
        result.name for result in results
    }


def test_a_kind_without_contract_tests_says_so(monkeypatch):
    monkeypatch.setattr("tfzoo.testing.runner.CONTRACTS", {})
    (result,) = check("schedule", "constant")
    assert result.ok
    assert "nothing was checked" in result.name
