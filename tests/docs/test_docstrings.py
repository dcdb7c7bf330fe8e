"""Every example in a docstring prints what it says."""

from __future__ import annotations

import doctest
from importlib import import_module

import pytest

from tests.docs.pages import ROOT

SRC = ROOT / "src"
MODULES = [
    path.relative_to(SRC).with_suffix("").as_posix().replace("/", ".")
    for path in sorted((SRC / "tfzoo").rglob("*.py"))
    if ">>> " in path.read_text("utf-8")
]


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_of_a_module_are_true(module: str) -> None:
    results = doctest.testmod(import_module(module), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert results.attempted
    assert not results.failed


def test_every_component_has_an_example() -> None:
    for folder in ("attention", "norm", "position", "feedforward"):
        for path in (SRC / "tfzoo" / folder).glob("[!_]*.py"):
            assert ">>> " in path.read_text("utf-8"), path
