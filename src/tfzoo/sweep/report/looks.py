"""With which seeds a sweep was judged before: ``judged.json`` in its folder. Whoever adds seeds
after a verdict was seen stops when the verdict suits, so the sample is then not the planned one.
"""

from __future__ import annotations

import json
from typing import Any

from tfzoo.base.bounded_files import object_of
from tfzoo.runs.files import replace_text
from tfzoo.sweep.judge.design import Design
from tfzoo.sweep.judge.sequential import FIRST
from tfzoo.sweep.run.runs_csv import SweepFolder

FILE = "judged.json"


def design(folder: SweepFolder) -> Design:
    """At how many seeds the runs of a folder may be judged, and with how many they were judged
    before, unless the sweep had declared the same looks already then. A look with too few seeds for
    a verdict does not count at the first number that has one.
    """
    looks, seeds = tuple(folder.file.get("looks") or ()), sorted(folder.seeds)
    fewest = FIRST if len(seeds) == FIRST else 1
    earlier = {
        len(look["seeds"])
        for look in read(folder)
        if look["seeds"] != seeds
        and len(look["seeds"]) >= fewest
        and (not looks or look.get("looks") != [*looks])
    }
    return Design(looks=() if earlier else looks, earlier=tuple(sorted(earlier)))


def read(folder: SweepFolder) -> list[dict[str, Any]]:
    """The earlier looks: the ``seeds`` and ``looks`` that the sweep file had."""
    found: list[dict[str, Any]] = object_of(folder.path / FILE).get("looks", [])
    return found


def record(folder: SweepFolder) -> None:
    """Record that somebody has seen the verdicts of a folder."""
    look = {"seeds": sorted(folder.seeds), "looks": [*(folder.file.get("looks") or ())]}
    before = read(folder)
    if look not in before:
        replace_text(folder.path / FILE, json.dumps({"looks": [*before, look]}) + "\n")
