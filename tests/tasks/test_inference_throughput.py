"""How fast something is made."""

from __future__ import annotations

import time

import pytest
import torch

from tfzoo.tasks.inference_throughput import InferenceThroughput


def test_only_what_is_done_inside_counts() -> None:
    pace = InferenceThroughput()
    assert pace.per_second is None
    with pace.timed(torch.device("cpu")):
        time.sleep(0.05)
    time.sleep(0.1)
    pace.made += 10
    assert 0.05 <= pace.seconds < 0.1
    assert pace.per_second == pytest.approx(10 / pace.seconds)
