"""What a grid compares: names of its cells, main effects, and what pruning leaves of both."""

from dataclasses import replace
from itertools import product

import pytest
from scipy.stats import t, ttest_1samp, ttest_rel

from tests.sweep.test_judge import AXES, GRID, SCORES, grid, judged, of, rows
from tfzoo.sweep.judge.design import UNDECLARED
from tfzoo.sweep.judge.effects import axis_name, cells
from tfzoo.sweep.judge.paired import Outcome, holm, interval
from tfzoo.sweep.judge.scores_by_seed import scores_by_seed
from tfzoo.sweep.judge.verdicts import decide


def pruned_grid():
    """A grid of which rms with alibi was pruned."""
    return [
        {**row, "status": "pruned", "reason": "pruned after 9 steps"}
        if (row["norm"], row["position"]) == ("rms", "alibi")
        else row
        for row in grid()
    ]


def test_axes_whose_keys_end_alike_are_named_in_full():
    axes = {"encoder.norm": ["a"], "decoder.norm": ["a"], "model.position": ["a"]}
    assert [axis_name(axes, axis) for axis in axes] == ["encoder.norm", "decoder.norm", "position"]


def test_the_baselines_value_of_each_axis_is_judged_as_the_baseline():
    verdicts = judged(grid(), GRID, {"position": "rotary"})
    assert (verdicts.metric, verdicts.mode, verdicts.notes) == ("val/loss", "min", [])
    assert [one.notes for one in verdicts.axes] == [[]] * 5
    baselines = [one.labels for one in verdicts.axes if one.verdict == "baseline"]
    assert baselines == [{"norm": "layer"}, {"position": "rotary"}]


def test_a_main_effect_of_which_a_cell_was_pruned_is_not_judged_but_counted():
    verdicts = judged(pruned_grid(), GRID)
    rms, alibi, rotary = (of(verdicts, label) for label in ("rms", "alibi", "rotary"))
    assert [(one.seeds, one.mean, one.p, one.verdict) for one in (rms, alibi)] == [
        (0, None, None, "not judged")
    ] * 2
    assert rms.sentence == (
        "norm rms, averaged over position: not judged: 1 of the 6 cells that it compares were "
        "pruned"
    )
    assert rms.notes == alibi.notes == []
    assert of(verdicts, "rms", "alibi").sentence.endswith("not judged: pruned after 9 steps")
    whole = judged(grid(), GRID)
    assert (rotary.p, rotary.verdict) == (of(whole, "rotary").p, "better")
    assert verdicts.comparisons == whole.comparisons == 5 + 3
    every = [*verdicts.cells, *verdicts.axes]
    tested = [one.p for one in every if one.p is not None]
    assert len(tested) == 5
    corrected = [one.p_corrected for one in every if one.p_corrected is not None]
    assert corrected == pytest.approx(holm([*tested, 1, 1, 1]).tolist()[:5])
    assert verdicts.notes == [
        "3 of 8 comparisons have no test because cells were pruned; the correction counts them. "
        "The cells that went on did well early, perhaps by luck; their intervals are wider to "
        "allow for that"
    ]


def test_intervals_of_what_was_not_pruned_are_wider_and_the_baselines_is_not():
    verdicts = judged(pruned_grid(), GRID)
    scores = {
        (norm, position): [
            row["val/loss"] for row in grid() if (row["norm"], row["position"]) == (norm, position)
        ]
        for norm, position in product(*GRID.values())
    }
    base, one = of(verdicts, "layer", "index"), of(verdicts, "layer", "rotary")
    own, level = scores["layer", "rotary"], 1 - 0.05 * 5 / 8
    assert (base.low, base.high) == pytest.approx(
        tuple(ttest_1samp(scores["layer", "index"], 0).confidence_interval(0.95))
    )
    assert (one.low, one.high) == pytest.approx(
        tuple(ttest_1samp(own, 0).confidence_interval(level))
    )
    assert (one.difference_low, one.difference_high) == pytest.approx(
        tuple(ttest_rel(own, scores["layer", "index"]).confidence_interval(level))
    )


def test_a_pruned_cell_has_no_scores_even_if_a_seed_was_completed():
    table = [*rows(SCORES), {"model.norm": "rms", "seed": 5, "status": "pruned"}]
    rms = of(judged(table), "rms")
    assert (rms.seeds, rms.mean, rms.p, rms.verdict) == (0, None, None, "not judged")
    assert rms.sentence == "rms: not judged: pruned"


def test_labels_that_the_sweep_file_lacks_are_said():
    verdicts = judged(rows(SCORES), {"model.norm": ["layer", "rms"]})
    assert verdicts.notes == ["model.norm: batch has runs but is not a value of this axis"]


def test_a_run_without_a_seed_is_omitted_and_said():
    table = [*rows(SCORES), {"model.norm": "rms", "seed": "", "val/loss": 9.0}]
    rms = of(judged(table), "rms")
    assert (rms.seeds, rms.notes) == (4, ["a run without a seed is omitted (completed)"])


def test_a_verdict_needs_a_corrected_p_below_5_percent():
    scores = scores_by_seed(rows(SCORES), AXES, "val/loss")
    _, rms, _ = cells(scores, AXES, ("layer",))
    test = interval(rms.differences)
    found = [
        decide(rms, Outcome(test, corrected, None, equal), "min", UNDECLARED)
        for corrected, equal in ((0.0499, 0.01), (0.05, 0.0499), (0.05, 0.05), (0.05, None))
    ]
    assert found == ["better", "equivalent", "not yet known", "not yet known"]
    one = of(judged(rows(SCORES)), "rms")
    hints = [replace(one, p_corrected=p).is_hint for p in (0.0099, 0.01, 0.0499, 0.05)]
    assert hints == [False, True, True, False]


def test_two_seeds_have_an_effect_and_no_verdict():
    table = rows({"layer": [2.0, 2.5, 3.0], "rms": [1.8, 2.2], "batch": [1.0]})
    verdicts = judged(table)
    rms, batch = of(verdicts, "rms"), of(verdicts, "batch")
    reach = t.isf(0.025, 1) * 0.2
    assert (rms.low, rms.high) == pytest.approx((2.0 - reach, 2.0 + reach))
    assert (rms.p, rms.difference_low, rms.verdict) == (None, None, "not yet known")
    assert rms.sentence.endswith(": -0.25 with 2 seeds; a verdict needs 3")
    assert batch.notes == [
        "seed 2 of layer has no partner here",
        "seed 3 of layer has no partner here",
        "one seed: no confidence interval",
    ]


@pytest.mark.parametrize(
    ("own", "base", "said"),
    [
        ([100.0, 101.0, 102.0], [100.0, 101.01, 102.01], " mean)"),
        ([0.5, -1.5, 1.5], [0.0, -1.0, 1.0], "3 seeds detect a difference of 1.9"),
        (
            [1.0, 9.0, 2.0],
            [2.0, 1.0, 3.0],
            "3 seeds detect no difference smaller than the baseline's mean",
        ),
        ([1.0, 2.0], [1.0, 2.0], ""),
    ],
)
def test_what_one_comparison_could_detect_names_only_what_exists(own, base, said):
    found = judged(rows({"layer": base, "rms": own})).smallest
    assert found.endswith(said)
    assert bool(found) == bool(said)
    assert "by comparison" not in found
