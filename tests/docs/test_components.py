"""One new component is one new file and one line of docs/components.md."""

import re

import pytest
import yaml

from tests.docs.pages import ROOT
from tfzoo.base.kinds import KINDS
from tfzoo.base.registry import describe, list_components, registry

PAGE = (ROOT / "docs/components.md").read_text("utf-8")


def line(entry):
    """The line of a component: name, what it is with its formula, paper."""
    summary = entry.summary.replace("``", "`")
    paper = re.sub(r"arXiv:([\d.]+\d)", r"[arXiv:\1](https://arxiv.org/abs/\1)", entry.paper)
    return f"- **{entry.name}**: {summary}{paper and f' {paper}.'}"


def section(kind):
    return re.findall(
        r"^- \*\*.*$", PAGE.partition(f"## {kind}\n")[2].partition("\n## ")[0], re.MULTILINE
    )


@pytest.mark.parametrize("kind", KINDS)
def test_each_component_has_its_line(kind):
    entries = [describe(kind, name) for name in list_components()[kind]]
    wanted = [line(entry) for entry in entries if entry.cls.__module__.startswith("tfzoo.")]
    assert section(kind) == wanted, (
        f"docs/components.md, section {kind}, should hold:\n" + "\n".join(wanted)
    )


def test_the_page_has_the_kinds_and_no_others():
    assert re.findall(r"^## (.*)$", PAGE, re.MULTILINE) == list(KINDS)


@pytest.mark.parametrize("spec", re.findall(r"`(\{name: [^`]*\})`", PAGE))
def test_a_spec_on_the_page_names_a_component_and_options_of_its(spec):
    given = yaml.safe_load(spec)
    (kind,) = (kind for kind, names in list_components().items() if given["name"] in names)
    options = registry(kind).options(given)[1]
    assert options.items() >= {key: value for key, value in given.items() if key != "name"}.items()
