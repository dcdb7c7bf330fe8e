"""The page of components has a section for each kind, which the site completes."""

import re

import pytest
import yaml

from docs._ext.reference import with_components
from docs._ext.tables import cell
from tests.docs.pages import ROOT
from tfzoo.base.kinds import KINDS
from tfzoo.base.registry import describe, list_components, registry

PAGE = (ROOT / "docs/components.md").read_text("utf-8")


@pytest.mark.parametrize("kind", KINDS)
def test_the_site_lists_each_component_under_its_kind(kind):
    section = with_components(PAGE).partition(f"\n## {kind}\n")[2].partition("\n## ")[0]
    for name in registry(kind).own_names():
        entry = describe(kind, name)
        row = (
            f"| [`{name}`](reference/{kind}/{name}.md) | {cell(entry.summary.replace('``', '`'))} |"
        )
        assert row in section


def test_the_page_has_the_kinds_and_no_others():
    assert re.findall(r"^## (.*)$", PAGE, re.MULTILINE) == list(KINDS)


@pytest.mark.parametrize("spec", re.findall(r"`(\{name: [^`]*\})`", PAGE))
def test_a_spec_on_the_page_names_a_component_and_options_of_its(spec):
    given = yaml.safe_load(spec)
    (kind,) = (kind for kind, names in list_components().items() if given["name"] in names)
    options = registry(kind).options(given)[1]
    assert options.items() >= {key: value for key, value in given.items() if key != "name"}.items()
