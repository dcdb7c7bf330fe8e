"""What is said of a sweep: numbers, verdicts, sentences, and everything that is missing."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.stats import t, ttest_1samp, ttest_rel

from tfzoo.errors import UnknownName
from tfzoo.sweep.judge.design import UNDECLARED
from tfzoo.sweep.judge.effects import axis_name
from tfzoo.sweep.judge.paired import answers, detectable, holm, seeds_needed
from tfzoo.sweep.judge.sentences import format_corrected, format_estimate, format_p, format_size
from tfzoo.sweep.judge.verdicts import judge

AXES = {"model.norm": ["layer", "rms", "batch"]}
SCORES = {"layer": [2.0, 2.5, 3.0, 2.2], "rms": [1.8, 2.31, 2.79, 2.02]}
SCORES["batch"] = [2.1, 2.3, 3.1, 2.4]


def rows(scores, metric="val/loss"):
    """Of one axis; a seed for each score, from 1."""
    return [
        {"model.norm": norm, "seed": seed, "status": "completed", metric: score}
        for norm, own in scores.items()
        for seed, score in enumerate(own, 1)
    ]


def judged(table, axes=AXES, baseline=None, *, mode="min", design=UNDECLARED):
    """By the loss in validation."""
    return judge(table, axes, baseline or {}, "val/loss", mode, design)


def of(verdicts, *labels):
    every = [*verdicts.cells, *verdicts.axes]
    return next(one for one in every if tuple(one.labels.values()) == labels)


def test_a_typo_does_not_turn_a_verdict():
    for typo in ({"mode": "minimum"}, {"baseline": {"norm": "rms"}}):
        with pytest.raises(UnknownName, match=r"Did you mean|Known: model\.norm"):
            judged(rows(SCORES), **typo)


def test_a_cell_has_the_numbers_of_a_paired_test():
    verdicts = judged(rows(SCORES))
    rms, batch = of(verdicts, "rms"), of(verdicts, "batch")
    test, other = (ttest_rel(SCORES[name], SCORES["layer"]) for name in ("rms", "batch"))
    assert (rms.seeds, rms.mean, rms.difference, rms.p) == pytest.approx(
        (4, 2.23, -0.195, test.pvalue), rel=1e-12
    )
    # All intervals of the two differences together have 95 %, and those of the three means.
    assert (rms.difference_low, rms.difference_high) == pytest.approx(
        tuple(test.confidence_interval(1 - 0.05 / 2)), rel=1e-12
    )
    assert (rms.low, rms.high) == pytest.approx(
        tuple(ttest_1samp(SCORES["rms"], 0).confidence_interval(1 - 0.05 / 3)), rel=1e-12
    )
    assert [rms.p_corrected, batch.p_corrected] == pytest.approx(
        holm([test.pvalue, other.pvalue]).tolist(), rel=1e-12
    )
    assert (rms.verdict, batch.verdict) == ("better", "not yet known")
    assert of(verdicts, "layer").verdict == "baseline"
    assert verdicts.comparisons == 2  # the values of the one axis are the cells, and count once
    assert [(one.labels, one.p_corrected) for one in verdicts.axes] == [
        (one.labels, one.p_corrected) for one in verdicts.cells
    ]


def test_which_way_is_better_is_the_metrics_to_say():
    assert of(judged(rows(SCORES), mode="max"), "rms").verdict == "worse"
    turned = judged(rows(SCORES), AXES, {"model.norm": "rms"})
    assert of(turned, "layer").verdict == "worse"
    assert "layer: worse than rms by 0.195 (95 % CI 0.168 " in of(turned, "layer").sentence


def test_sentences_say_how_much_with_an_interval_and_a_corrected_p():
    verdicts, corrected = judged(rows(SCORES)), "after Holm's correction for 2 comparisons"
    assert of(verdicts, "rms").sentence == (
        f"rms: better than layer by 0.195 (95 % CI 0.168 to 0.222), p < 0.001 {corrected}"
    )
    assert of(verdicts, "batch").sentence == (
        "batch: not yet known whether it differs from layer, with 4 seeds: difference 0.05 "
        f"(95 % CI -0.31 to 0.41), p = 0.6 {corrected}"
    )
    assert of(verdicts, "layer").sentence == "layer: the baseline"


def test_the_smallest_effect_is_that_of_the_middle_comparison():
    verdicts = judged(rows(SCORES))
    differences = [np.subtract(SCORES[name], SCORES["layer"]) for name in ("rms", "batch")]
    spread = float(np.mean([np.std(one, ddof=1) for one in differences]))
    mean = float(np.mean(SCORES["layer"]))
    middle = detectable(4, 2) * spread
    seeds = seeds_needed(0.01 * mean, spread, 2, free=3)
    assert verdicts.smallest == (
        f"4 seeds detect a difference of {middle:.2g} ({100 * middle / mean:.2g} % of the "
        f"baseline's mean); about {seeds} detect {0.01 * mean:.2g} (1 %) with a chance of 80 %"
    )
    alone = {"layer": [10.0, 11.0, 12.0], "rms": [10.01, 11.02, 11.98]}
    spread = float(np.std([0.01, 0.02, -0.02], ddof=1))
    assert judged(rows(alone)).smallest == (
        "3 seeds detect a difference of "
        f"{detectable(3) * spread:.2g} ({100 * detectable(3) * spread / 11:.2g} % of the "
        "baseline's mean)"
    ), "which is less than 1 %"
    assert judged(rows({"layer": [1.0]})).smallest == ""


def test_what_is_missing_counts_for_nothing_and_is_said():
    table = rows({**SCORES, "batch": ["", "nan", 2.0, 2.2]})
    table[0] |= {"status": "failed"}
    table[5] |= {"status": "missing", "val/loss": None}
    table += [{"model.norm": "none", "seed": "", "status": "refused", "reason": "leaky-norm"}]
    verdicts = judged(table, {"model.norm": [*AXES["model.norm"], "none", "instance"]})
    assert of(verdicts, "rms").seeds == 3
    assert of(verdicts, "rms").difference == pytest.approx(-0.195)
    assert (of(verdicts, "rms").p, of(verdicts, "rms").verdict) == (None, "not yet known")
    assert of(verdicts, "batch").diverged == "1 run that diverged"
    assert of(verdicts, "batch").why_open == "seed 1 failed"
    assert of(verdicts, "none").sentence.endswith(": no seed has a score of it and of layer")
    early, never = verdicts.notes
    assert early.endswith(" no test before their runs are finished; the correction counts them")
    assert never == "1 of 3 comparisons have no test and are not counted in the correction"


def test_cells_that_are_not_finished_are_counted_and_take_back_no_verdict():
    early = rows(SCORES)
    for row in early[-4:]:
        row |= {"status": "missing", "val/loss": None}
    before, after = (of(judged(table), "rms") for table in (early, rows(SCORES)))
    assert before.p_corrected == pytest.approx(2 * (before.p or 0))
    assert (before.p_corrected, before.difference_low) == (after.p_corrected, after.difference_low)
    (note,) = judged(early).notes
    assert note.startswith("1 of 2 comparisons have no test before their runs are finished")


def test_without_the_baseline_means_stand_and_nothing_is_compared():
    verdicts = judged(rows({"rms": SCORES["rms"]}))
    assert "the baseline (layer) has no completed run with a val/loss" in " ".join(verdicts.notes)
    rms = of(verdicts, "rms")
    assert (rms.mean, rms.difference, rms.verdict) == (pytest.approx(2.23), None, "not judged")
    without = judge(rows(SCORES), AXES, {}, "val/bleu", "max")
    assert without.notes[0] == "no completed run has a val/bleu"
    assert judge([], AXES, {}, "val/bleu", "max").comparisons == 0


def test_one_seed_and_no_spread_have_no_p():
    scores = {"layer": [1.0] * 3, "rms": ["1.0"] * 3, "batch": [0.4] * 3, "none": [0.5]}
    verdicts = judged(rows(scores), {"model.norm": [*scores]}, mode="max")
    assert [one.p for one in verdicts.cells] == [None] * 4
    found = [one.verdict for one in verdicts.cells]
    assert found == ["baseline", "not judged", "not judged", "not yet known"]
    rms, batch, none = (of(verdicts, name) for name in ("rms", "batch", "none"))
    no_test = "with 3 seeds; differences without a variance have no test"
    assert rms.sentence == f"rms: not judged: it equals layer {no_test}"
    assert batch.sentence == f"batch: not judged: it differs from layer by -0.6 {no_test}"
    assert none.sentence.endswith("differs from layer: -0.5 with 1 seed; a verdict needs 3")
    assert (none.low, rms.low, none.difference) == (None, None, -0.5)


GRID = {"norm": ["layer", "rms"], "position": ["index", "rotary", "alibi"]}


def grid(seeds=5):
    random = np.random.default_rng(1)
    for norm, position, seed in product(*GRID.values(), range(seeds)):
        score = 3 * seed - 1.0 * (position == "rotary") + random.normal(0, 0.1)
        score += 0.2 * (norm == "rms") * (position == "alibi")
        row = {"norm": norm, "position": position, "seed": seed}
        yield {**row, "status": "completed", "val/loss": score}


def mean(table, **labels):
    """Over the rows with these labels."""
    rows = [row["val/loss"] for row in table if row.items() >= labels.items()]
    return float(np.mean(rows))


def test_an_axis_is_judged_by_the_mean_over_the_others_seed_by_seed():
    table = list(grid())
    verdicts = judged(table, GRID)
    own, base = (
        [mean(table, position=label, seed=seed) for seed in range(5)]
        for label in ("rotary", "index")
    )
    rotary = of(verdicts, "rotary")
    assert rotary.labels == {"position": "rotary"}
    assert (rotary.p, rotary.difference) == pytest.approx(
        (ttest_rel(own, base).pvalue, np.mean(own) - np.mean(base))
    )
    assert rotary.sentence.startswith("position rotary, averaged over norm: better than index by ")
    assert [tuple(one.labels.items()) for one in verdicts.axes] == [
        (pair,) for axis in GRID for pair in product([axis], GRID[axis])
    ]
    assert verdicts.comparisons == 5 + 3
    assert of(verdicts, "rms", "rotary").sentence.startswith(
        "norm rms, position rotary: better than layer, index by "
    )
    every = [one for one in [*verdicts.cells, *verdicts.axes] if one.p is not None]
    assert [one.p_corrected for one in every] == pytest.approx(
        holm([one.p for one in every if one.p is not None]).tolist()
    )


def test_an_axis_over_a_grid_with_holes_says_which():
    holes = {"norm": "rms", "position": "alibi"}, {"norm": "layer", "position": "rotary", "seed": 3}
    table = [row for row in grid() if not any(row.items() >= hole.items() for hole in holes)]
    verdicts = judged(table, GRID)
    rms = of(verdicts, "rms")
    assert rms.notes == [
        "unbalanced: averaged over 2 of 3 settings with seeds 0, 1, 2, 4",
        "unbalanced: averaged over 1 of 3 settings with seed 3",
    ]


def test_a_sweep_around_its_baseline_has_its_cells_as_effects():
    table = [row for row in grid() if row["norm"] == "layer" or row["position"] == "index"]
    verdicts = judged(table, GRID)
    assert verdicts.comparisons == 3
    labels = [{axis: label} for axis in GRID for label in GRID[axis]]
    assert [one.labels for one in verdicts.axes] == labels
    assert of(verdicts, "rotary").p == of(verdicts, "layer", "rotary").p
    assert of(verdicts, "rotary").notes == []


@pytest.mark.parametrize(
    ("noise", "note"),
    [
        ([1, -1, 0.5, -0.5, 0.3, -0.3], ""),
        ([1, -1, 0.5, -0.5, 0.3, 30], "seed 6 is an outlier: if one side alone has rare bad runs,"),
        ([1, 1, 0, 1, 0, 1], "differences of few values: then a t test is wrong in up to 12 %"),
        (np.exp(np.linspace(-2.5, 2.5, 12)), "skewed differences:"),
    ],
)
def test_what_a_t_test_does_not_allow_for_is_said_beside_the_verdict(noise, note):
    base = [2.0 + 0.1 * seed for seed in range(len(noise))]
    table = rows({"layer": base, "rms": np.add(base, noise)})
    notes = of(judged(table), "rms").notes
    assert [one.startswith(note) for one in notes] == [True] * bool(note)


def test_the_permutation_test_stands_beside_the_verdict_where_it_can_decide():
    base = [2.0, 2.5, 3.0, 2.2, 2.7, 2.9]
    own = np.subtract(base, [0.2, 0.19, 0.21, 0.18, 0.2, 0.17])
    for seeds, said in ((6, " (permutation test: p = 0.031)"), (5, "")):
        found = of(judged(rows({"layer": base[:seeds], "rms": own[:seeds]})), "rms").sentence
        assert found.endswith("p < 0.001" + said)


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ((0.1234, 0.052, 0.194), "0.123 (95 % CI 0.052 to 0.194)"),
        ((0.01234, -0.2, 0.2), "0.01 (95 % CI -0.20 to 0.20)"),
        ((-0.001, -0.011, 0.009), "-0.001 (95 % CI -0.011 to 0.009)"),
        ((-0.01, -0.4, 0.4), "-0.01 (95 % CI -0.40 to 0.40)"),
        ((-0.075, -0.149, -0.00101), "-0.075 (95 % CI -0.149 to -0.001)"),
        ((1234.5, 1100.0, 1369.0), "1,234 (95 % CI 1,100 to 1,369)"),
    ],
)
def test_an_interval_says_how_many_digits_there_are(numbers, text):
    assert format_estimate(*numbers) == text


def test_a_p_is_not_rounded_across_five_percent():
    shown = {0.0002: "< 0.001", 0.001: "= 0.001", 0.00301: "= 0.003", 0.0499: "< 0.05"}
    shown |= {0.0501: "= 0.05", 0.8: "= 0.8", 1.0: "= 1"}
    assert {p: format_p(p) for p in shown} == {p: f"p {text}" for p, text in shown.items()}
    assert format_corrected(0.02, 1) == "p = 0.02"
    assert format_corrected(0.02, 4) == "p = 0.02 after Holm's correction for 4 comparisons"


def test_sizes_have_two_digits_and_no_exponent():
    shown = {0.01234: "0.012", 1.55: "1.6", 43.21: "43", 99.6: "100", 1234.5: "1,234"}
    assert {size: format_size(size) for size in shown} == shown


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
