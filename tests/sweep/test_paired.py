"""Intervals and tests over simulated sweeps whose truth is known."""

import numpy as np
import pytest
from scipy.stats import nct, t

from tfzoo.sweep.judge.paired import ALPHA, detectable, has_variance, holm, power


def test_holm_is_the_example_of_the_paper_in_any_order():
    """Holm (1979): in rising order, each p times the number of p values not yet used."""
    np.testing.assert_allclose(
        holm([[0.04, 0.001, 0.03, 0.01], [0.5, 0.5, 0.5, 0.5]]),
        [[0.06, 0.004, 0.06, 0.03], [1, 1, 1, 1]],
    )
    assert holm([]).tolist() == []


def test_power_is_that_of_the_noncentral_t():
    for seeds, size, comparisons in [(3, 1.0, 1), (5, 0.3, 4), (20, 0.9, 8), (10, 5.0, 8)]:
        bar, shift = t.isf(0.025 / comparisons, seeds - 1), size * seeds**0.5
        wanted = nct.sf(bar, seeds - 1, shift) + nct.cdf(-bar, seeds - 1, shift)
        np.testing.assert_allclose(power(size, 1.0, seeds, comparisons), wanted, atol=1e-4)


def test_rounding_is_no_variance():
    ones = np.array([0.9, 0.8, 0.7], np.float32) - np.array([0.8, 0.7, 0.6], np.float32)
    assert not has_variance(ones, 0.9)
    assert has_variance([0.1, 0.1001], 0.9)
    assert not has_variance([0.0, 0.0], 0.0)


@pytest.mark.parametrize(("seeds", "comparisons"), [(2, 1), (5, 1), (5, 10), (20, 4)])
def test_the_smallest_difference_that_is_detected_is_detected_in_80_of_100_sweeps(
    seeds, comparisons
):
    free, shift = seeds - 1, detectable(seeds, comparisons) * seeds**0.5
    bar = t.isf(ALPHA / comparisons / 2, free)
    assert nct.sf(bar, free, shift) == pytest.approx(0.8, abs=0.002)
