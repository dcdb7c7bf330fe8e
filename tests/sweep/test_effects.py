"""What a grid compares: names of its cells, main effects, and what is missing of both."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t

from tests.sweep.test_judge import GRID, SCORES, grid, judged, of, rows
from tfzoo.sweep.judge.effects import axis_name
from tfzoo.sweep.judge.paired import answers


def test_axes_whose_keys_end_alike_are_named_in_full():
    axes = {"encoder.norm": ["a"], "decoder.norm": ["a"], "model.position": ["a"]}
    assert [axis_name(axes, axis) for axis in axes] == ["encoder.norm", "decoder.norm", "position"]


def test_the_baselines_value_of_each_axis_is_judged_as_the_baseline():
    verdicts = judged(grid(), GRID, {"position": "rotary"})
    assert (verdicts.metric, verdicts.mode, verdicts.notes) == ("val/loss", "min", [])
    assert [one.notes for one in verdicts.axes] == [[]] * 5
    baselines = [one.labels for one in verdicts.axes if one.verdict == "baseline"]
    assert baselines == [{"norm": "layer"}, {"position": "rotary"}]


def test_a_verdict_needs_a_corrected_p_below_5_percent():
    found = answers([0.0499, 0.05, 0.05, 0.05], [0.01, 0.0499, 0.05, 1.0], -1)
    np.testing.assert_array_equal(found, [-1, 0, np.nan, np.nan])
    one = of(judged(rows(SCORES)), "rms")
    hints = [replace(one, p_corrected=p).is_hint for p in (0.0099, 0.01, 0.0499, 0.05)]
    assert hints == [False, True, True, False]


def test_two_seeds_have_an_effect_and_no_verdict():
    table = rows({"layer": [2.0, 2.5, 3.0], "rms": [1.8, 2.2], "batch": [1.0]})
    verdicts = judged(table)
    rms, batch = of(verdicts, "rms"), of(verdicts, "batch")
    reach = t.isf(0.025 / 2, 1) * 0.2  # of the two cells whose means have an interval
    assert (rms.low, rms.high) == pytest.approx((2.0 - reach, 2.0 + reach))
    assert (rms.p, rms.difference_low, rms.verdict) == (None, None, "not yet known")
    assert rms.sentence.endswith(": -0.25 with 2 seeds; a verdict needs 3")
    assert (batch.mean, batch.low, batch.high) == (1.0, None, None)


@pytest.mark.parametrize(
    ("own", "base", "said"),
    [
        ([100.0, 101.0, 102.0], [100.0, 101.01, 102.01], " mean)"),
        ([0.5, -1.5, 1.5], [0.0, -1.0, 1.0], "3 seeds detect a difference of 1.9"),
        (
            [1.0, 9.0, 2.0],
            [2.0, 1.0, 3.0],
            "; more than 1,000 detect 0.02 (1 %) with a chance of 80 %",
        ),
        ([1.0, 2.0], [1.0, 2.0], ""),
    ],
)
def test_what_one_comparison_could_detect_names_only_what_exists(own, base, said):
    found = judged(rows({"layer": base, "rms": own})).smallest
    assert found.endswith(said)
    assert bool(found) == bool(said)
    assert "by comparison" not in found
