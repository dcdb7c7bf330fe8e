"""READMEs and landing pages: alike in both languages, with parts that exist."""

import re
import tomllib

import pytest

from tests.docs.pages import ROOT, TRANSLATED, blocks
from tfzoo.base.kinds import KINDS
from tfzoo.base.registry import list_components

LANDING = ["README.md", "docs/index.md", *TRANSLATED]


def text(page):
    return (ROOT / page).read_text("utf-8")


def pictures(page):
    return re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text(page))


@pytest.mark.parametrize("page", TRANSLATED)
def test_a_translated_page_has_the_commands_code_and_pictures_of_the_other(page):
    english = page.replace(".zh-CN", "")
    code, same = (
        [(one.language, one.text) for one in blocks(each) if one.language]
        for each in (page, english)
    )
    assert code == same
    assert pictures(page) == pictures(english) != []
    headings = [len(re.findall(r"^## ", text(one), re.MULTILINE)) for one in (page, english)]
    assert headings[0] == headings[1]


@pytest.mark.parametrize("page", LANDING)
def test_the_table_of_what_there_is_names_all_kinds_and_parts_that_exist(page):
    named = []
    for line in text(page).splitlines():
        cells = line.split(" | ")
        kinds = re.findall("[a-z]+", re.sub(r"\]\(.*?\)", "", cells[0]))
        if len(cells) != 3 or not kinds or not KINDS.keys() >= set(kinds):
            continue
        named += kinds
        known = {name for kind in kinds for name in list_components()[kind]}
        parts = set(re.findall(r"`([a-z_]+)`", line))
        assert parts
        assert parts <= known, f"{page}: {parts - known}"
    assert named == list(KINDS)


def test_the_readme_of_a_package_index_has_no_links_or_pictures_that_it_cannot_show():
    hook = tomllib.loads(text("pyproject.toml"))["tool"]["hatch"]["metadata"]["hooks"]
    readme = text("README.md")
    for one in hook["fancy-pypi-readme"]["substitutions"]:
        readme, count = re.subn(one["pattern"], one["replacement"], readme)
        assert count, one
    assert not re.findall(r"\]\((?!https?://)[^)]*\)", readme)
    assert "![" not in readme
    assert "\n|---|---|\n" not in readme  # the table of pictures has gone with them
    assert readme.startswith("# tfzoo\n\nInterchangeable")
