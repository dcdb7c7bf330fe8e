"""Every promise of every component, and that a trait is believed by nobody."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tfzoo.registry import KINDS, Entry, registry
from tfzoo.testing import Result, check
from tfzoo.testing.component import MODULES
from tfzoo.testing.contract import promises
from tfzoo.testing.promise import Promise, outcome


def test_a_component_keeps_what_it_promises(promised: tuple[Promise, Entry]) -> None:
    result = outcome(*promised)
    assert result.ok, result.message


def flips() -> list[tuple[Entry, str]]:
    entries = [registry(kind).entry(name) for kind in MODULES for name in registry(kind).names()]
    return [(entry, trait) for entry in entries for trait in sorted(KINDS[entry.kind].traits)]


@pytest.mark.parametrize(
    ("entry", "trait"), flips(), ids=lambda value: value if isinstance(value, str) else value.name
)
def test_a_trait_is_noticed_when_claimed_falsely_and_when_kept_quiet(
    entry: Entry, trait: str
) -> None:
    lying = replace(entry, traits=entry.traits ^ {trait})
    if "mixes_tokens:always" in entry.traits and trait == "mixes_tokens:training":
        pytest.skip("who mixes always mixes in training")
    truths = [
        promise for promise in promises(entry.kind) if promise.__name__.endswith("says_the_truth")
    ]
    assert all(outcome(promise, entry).ok for promise in truths)
    assert not all(outcome(promise, lying).ok for promise in truths)


def test_check_tells_each_promise_by_name() -> None:
    results = list(check("norm", "rms"))
    assert all(isinstance(result, Result) and result.ok for result in results), [
        result for result in results if not result.ok
    ]
    assert "mixes tokens says the truth" in {result.name for result in results}
    assert "in stacks, one token at a time equals all at once" in {
        result.name for result in results
    }


def test_a_kind_without_contract_tests_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfzoo.testing.contract.PROMISES", {})
    (result,) = check("schedule", "constant")
    assert result.ok
    assert "nothing was checked" in result.name
