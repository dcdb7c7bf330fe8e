"""Throughput counts the time inside of the ``with`` block alone."""

import time

import pytest
import torch

from tfzoo.learning.scoring import InferenceThroughput


def test_only_the_time_inside_counts():
    throughput = InferenceThroughput()
    assert throughput.per_second is None
    began = time.perf_counter()
    with throughput.timed(torch.device("cpu")):
        time.sleep(0.05)
    time.sleep(0.1)
    throughput.items += 10
    assert 0.05 <= throughput.seconds <= time.perf_counter() - began - 0.1
    assert throughput.per_second == pytest.approx(10 / throughput.seconds)
