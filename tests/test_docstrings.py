"""The examples in the components' docstrings run, and every component says what it is."""

from __future__ import annotations

import doctest
import importlib

import pytest

from tfzoo.base.registry import registry
from tfzoo.testing.samples import COMPONENT_KINDS

COMPONENTS = [(kind, name) for kind in COMPONENT_KINDS for name in registry(kind).names()]


@pytest.mark.parametrize(("kind", "name"), COMPONENTS)
def test_examples_run(kind: str, name: str) -> None:
    entry = registry(kind).entry(name)
    result = doctest.testmod(importlib.import_module(entry.cls.__module__))
    assert result.attempted
    assert not result.failed
    assert "`" in entry.summary, "the first paragraph holds the formula"
    assert set(entry.options) <= {
        line.strip().partition(":")[0] for line in (entry.cls.__doc__ or "").splitlines()
    }, "every option is explained"
