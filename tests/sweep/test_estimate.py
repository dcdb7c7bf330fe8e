"""The time that the remaining runs of a sweep take."""

from types import SimpleNamespace
from typing import Any

import pytest

from tfzoo.sweep.run.progress import seconds_left

SLOW: Any = SimpleNamespace(name="slow-1", cell=SimpleNamespace(name="slow"))
FAST: Any = SimpleNamespace(name="fast-1", cell=SimpleNamespace(name="fast"))
TIMES = [(SLOW, 100.0), (FAST, 10.0)]


@pytest.mark.parametrize(
    ("left", "jobs", "wanted"),
    [
        ([SLOW, FAST], 1, 110),
        ([FAST, FAST, FAST, FAST], 2, 20),
        ([SLOW], 4, 100),
        ([SLOW, FAST], 2, 100),
        ([], 4, 0),
    ],
)
def test_a_run_is_not_shared_between_jobs(left, jobs, wanted):
    assert seconds_left(left, TIMES, jobs) == wanted
