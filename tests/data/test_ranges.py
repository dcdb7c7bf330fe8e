"""Numbers of data, tokenizers and data sets have ranges that constructors check."""

import re
from math import inf, nan
from typing import Any

import pytest

from tfzoo.base.registry import create, registry
from tfzoo.base.values import members
from tfzoo.config.config import make_section
from tfzoo.data.classification import ClassificationData
from tfzoo.data.translation import TranslationData
from tfzoo.errors import BadOption

TEXT: dict[type, dict[str, Any]] = {
    TranslationData: {"train": "no/such/file", "val": "no/such/file"},
    ClassificationData: {"train": "no/such/file"},
}
IMPOSSIBLE = (nan, inf, -inf, -1, -0.5, 1.5, 10**12, 10**400, True, "a")


def numbers_of_data():
    """Every argument of the data modules whose type is a number."""
    for cls in TEXT:
        for name, hint in make_section(cls, frozenset()).hints.items():
            if {int, float} & set(members(hint)):
                yield pytest.param(cls, name, id=f"{cls.__name__}-{name}")


def numbers_of_components():
    """Every option of a tokenizer or a built-in data set whose type is a number."""
    for kind in ("tokenizer", "dataset"):
        for component in registry(kind).names():
            for name, option in registry(kind).entry(component).options.items():
                if {int, float} & set(members(option.annotation)):
                    yield pytest.param(kind, component, name, id=f"{component}-{name}")


@pytest.mark.parametrize(("cls", "name"), list(numbers_of_data()))
def test_a_number_that_cannot_be_is_refused_by_its_name(cls, name):
    for value in IMPOSSIBLE:
        with pytest.raises(BadOption, match=rf"{name}={re.escape(repr(value))} must be a "):
            cls(**TEXT[cls], **{name: value})


@pytest.mark.parametrize(("kind", "component", "name"), list(numbers_of_components()))
def test_an_option_that_cannot_be_is_refused_by_its_name(kind, component, name):
    for value in (nan, inf, -inf, -1, 1.5, 10**12, 10**400, True):
        with pytest.raises(BadOption, match=rf"'{component}'.*{name}"):
            create(kind, {"name": component, name: value})
