"""Every contract of every component; traits are checked and not believed."""

import pytest
import torch

from tests.daily import sampled
from tests.testing import rare
from tfzoo.base.kinds import KINDS
from tfzoo.base.registry import registry
from tfzoo.testing import Result, check, contracts
from tfzoo.testing.component import compiled_in_one_graph_it_computes_the_same as compiled
from tfzoo.testing.contract import run_contract
from tfzoo.testing.samples import COMPONENT_KINDS

ENTRIES = [
    registry(kind).entry(name) for kind in COMPONENT_KINDS for name in registry(kind).names()
]


FIRST = [registry(kind).entry(registry(kind).names()[0]) for kind in COMPONENT_KINDS]


def named(entry):
    return f"{entry.kind}-{entry.name}"


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
    results = [run_contract(one, component) for one in asked if one is not compiled]
    assert {result.name: result.message for result in results if not result.ok} == {}


@pytest.mark.parametrize(
    "entry", sampled(ENTRIES, [*FIRST, registry("mixer").entry("gru")]), ids=named
)
def test_a_component_compiled_in_one_graph_computes_the_same(entry):
    """By day one of each kind, and the one that breaks a graph."""
    result = run_contract(compiled, entry)
    assert result.ok, result.message


def test_each_trait_has_a_contract():
    for kind in COMPONENT_KINDS:
        titles = {one.__name__ for one in contracts(kind)}
        wanted = {f"{one}_says_the_truth" for one in KINDS[kind].traits if one != "breaks_graph"}
        assert wanted <= titles


def test_check_names_each_contract():
    results = list(check("norm", "rms"))
    assert all(isinstance(result, Result) and result.ok for result in results), [
        result for result in results if not result.ok
    ]
    assert "centres texts says the truth" in {result.name for result in results}
    assert "in a decoder, one token at a time equals all at once" in {
        result.name for result in results
    }
