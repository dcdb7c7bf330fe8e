"""docs/architecture.md names rooms and functions that there are."""

import re
from functools import cache
from pathlib import Path

import tfzoo
from benchmarks.structure import Source
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs/architecture.md").read_text("utf-8")
HERE = Path(tfzoo.__file__).parent
WALKS = {
    section.partition("\n")[0]: re.findall(r"^\d+\. `([\w/]+\.py:[\w.]+)`", section, re.MULTILINE)
    for section in PAGE.split("\n## ")[1:]
}


@cache
def source():
    return Source(HERE)


def test_every_function_of_a_walk_is_there():
    known = {f"{file}:{name}" for file, name in source().definitions}
    assert [step for steps in WALKS.values() for step in steps if step not in known] == []
    assert sum(len(steps) >= 8 for steps in WALKS.values()) == 5


def test_the_page_and_its_picture_have_the_rooms_that_there_are():
    rooms = {name for name in source().rooms() if not name.startswith("__")}
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", PAGE, re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == rooms
    picture = (ROOT / "docs/images/house.svg").read_text("utf-8")
    drawn = set(re.findall(r"<!-- (\w+) -->", picture))
    assert drawn == rooms, "python -m benchmarks.structure --draw"
