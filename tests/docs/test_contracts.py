"""docs/own-components.md lists every contract, in the words of its docstring."""

import inspect

from tests.docs.pages import ROOT
from tfzoo.base.kinds import KINDS
from tfzoo.testing.classifier_contracts import CLASSIFIER_CONTRACTS
from tfzoo.testing.contract import title
from tfzoo.testing.runner import contracts, rules_of_style
from tfzoo.testing.samples import COMPONENT_KINDS
from tfzoo.testing.stack_contracts import STACK_CONTRACTS

PAGE = ROOT / "docs/own-components.md"


def lines(functions):
    """``- **title**: docstring`` for each."""
    found = []
    for function in functions:
        said = " ".join((inspect.getdoc(function) or "").split()).replace("``", "`")
        assert said, f"{function.__module__}.{function.__name__} has no docstring"
        found.append(f"- **{title(function)}**: {said}")
    return [*found, ""]


def listed():
    every = [one for one in contracts(COMPONENT_KINDS[0]) if one in contracts(COMPONENT_KINDS[1])]
    page = ["### every component", "", *lines(every)]
    for kind in KINDS:
        own = [one for one in contracts(kind) if kind not in COMPONENT_KINDS or one not in every]
        page += [f"### {kind}", "", *lines(own)] if own else []
    page += ["### in a stack or translator", "", *lines(list(STACK_CONTRACTS))]
    page += ["### in a classifier", "", *lines(list(CLASSIFIER_CONTRACTS))]
    page += ["## Style", "", *lines(rules_of_style(COMPONENT_KINDS[0]))]
    return "\n".join(page).rstrip() + "\n"


def test_the_page_lists_every_contract():
    assert PAGE.read_text("utf-8").partition("<!-- contracts -->\n")[2] == listed(), (
        "docs/own-components.md should end with:\n" + listed()
    )
