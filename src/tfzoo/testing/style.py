"""Rules of style: a component that breaks one still computes what it should."""

from __future__ import annotations

import torch

from tfzoo.base.registry import Entry
from tfzoo.models.initialise import initialise
from tfzoo.testing.component import assert_same_probe, uninitialised_is_nan
from tfzoo.testing.contract import Contract, Violation, assert_same
from tfzoo.testing.samples import build


def the_docstring_holds_the_formula(entry: Entry) -> None:
    """The class has a docstring of its own that holds the formula in double backquotes."""
    if "``" not in _docstring(entry):
        raise Violation(
            "the docstring should hold the formula of the component in double backquotes"
        )


def the_docstring_names_every_option(entry: Entry) -> None:
    """The docstring names every option."""
    for option in entry.options:
        if option not in _docstring(entry):
            raise Violation(f"the docstring does not name option {option!r}")


def reset_parameters_initialises_every_parameter(entry: Entry) -> None:
    """``reset_parameters`` gives every parameter and saved buffer its initial value, so that a
    model can be built on the meta device and filled later (FSDP), and runs with one seed start
    alike.
    """
    with uninitialised_is_nan():
        built, again = build(entry), build(entry)
        with torch.device("meta"):
            empty = build(entry)
    with torch.no_grad():
        for value in again.state_dict().values():
            value.fill_(float("nan")) if value.is_floating_point() else value.fill_(-1)
    filled = empty.to_empty(device="cpu")
    for module in (built, again, filled):
        initialise(module, seed=3)
    for name, value in built.state_dict().items():
        for other in (again, filled):
            if bool(other.state_dict()[name].isnan().any()):
                raise Violation(f"reset_parameters does not initialise {name}")
            assert_same(other.state_dict()[name], value, f"{name}, initialised from one seed", 0.0)
    assert_same_probe(entry, filled, built, "built on the meta device and filled later")


def _docstring(entry: Entry) -> str:
    """The docstring of the class itself; an inherited one describes another component."""
    return vars(entry.cls).get("__doc__") or ""


RULES: tuple[Contract, ...] = (
    the_docstring_holds_the_formula,
    the_docstring_names_every_option,
    reset_parameters_initialises_every_parameter,
)
"""Of the kinds that are modules of a model."""
