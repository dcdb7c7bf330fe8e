"""Examples in docstrings print what they say; those of contracts are run by them."""

import doctest
from importlib import import_module

import pytest

from tests.docs.pages import ROOT

SRC = ROOT / "src"
MODULES = [
    path.relative_to(SRC).with_suffix("").as_posix().replace("/", ".")
    for path in sorted((SRC / "tfzoo").rglob("*.py"))
    if ">>> " in path.read_text("utf-8") and path.parent.name != "testing"
]


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_of_a_module_are_true(module):
    results = doctest.testmod(import_module(module))
    assert results.attempted
    assert not results.failed
