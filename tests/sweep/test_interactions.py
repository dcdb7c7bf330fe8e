"""Whether the effect of one axis depends on another: differences of differences, by seed."""

from itertools import combinations, product

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from tfzoo.sweep.judge.paired import holm
from tfzoo.sweep.judge.verdicts import interactions

AXES = {"norm": ["layer", "rms"], "position": ["index", "rotary", "alibi"]}
EFFECTS = {"rms": 0.1, "rotary": -0.3, "alibi": 0.2}


def grid(axes=AXES, seeds=5, depends=0.5):
    """The effect of ``rms`` is larger by ``depends`` with ``rotary``."""
    random, rows = np.random.default_rng(3), []
    for labels, seed in product(product(*axes.values()), range(seeds)):
        loss = 2 + seed / 3 + sum(EFFECTS.get(label, 0.0) for label in labels)
        loss += depends * ({"rms", "rotary"} <= {*labels}) + random.normal(0, 0.02)
        rows.append({**dict(zip(axes, labels, strict=True)), "seed": seed, "val/loss": loss})
    return rows


def of(rows, *labels):
    return np.array([one["val/loss"] for one in rows if {*labels} <= {*map(str, one.values())}])


def only(rows, axes=AXES):
    (one,) = interactions(rows, axes, {}, "val/loss")
    return one


def test_a_difference_of_differences_has_the_numbers_of_a_paired_test():
    rows = grid()
    rotary, alibi = only(rows).found
    tests = []
    for one, label in ((rotary, "rotary"), (alibi, "alibi")):
        here = of(rows, "rms", label) - of(rows, "layer", label)
        there = of(rows, "rms", "index") - of(rows, "layer", "index")
        tests.append(ttest_1samp(here - there, 0))
        assert one.labels == {"norm": "rms", "position": label}
        assert (one.mean, one.difference, one.p) == pytest.approx(
            (here.mean(), (here - there).mean(), tests[-1].pvalue), rel=1e-12
        )
        assert (one.difference_low, one.difference_high) == pytest.approx(
            tuple(tests[-1].confidence_interval(1 - 0.05 / 2)), rel=1e-12
        )
    assert [one.p_corrected for one in (rotary, alibi)] == pytest.approx(
        holm([test.pvalue for test in tests]).tolist(), rel=1e-12
    )


def test_one_sentence_says_whether_one_effect_depends_on_the_other():
    said = only(grid()).sentence
    assert said.startswith(
        "the effect of norm depends on position: rms instead of layer changes val/loss by +0.6"
    )
    assert " at rotary and by +0.1" in said
    assert said.endswith("for 2 comparisons; 1 of 2 such differences are significant")
    assert only(grid(depends=0.0)).sentence.startswith(
        "not yet known whether the effect of norm depends on position: "
    )


def test_settings_of_a_third_axis_are_averaged_over():
    widths = ["64", "128"]
    axes = {"norm": ["layer", "rms"], "position": ["index", "rotary"], "width": widths}
    rows = grid(axes)
    found = interactions(rows, axes, {}, "val/loss")
    assert [one.axes for one in found] == list(combinations(axes, 2))
    rotary, index = (
        [of(rows, "rms", position, width) - of(rows, "layer", position, width) for width in widths]
        for position in ("rotary", "index")
    )
    each = np.subtract(rotary, index)
    assert found[0].found[0].p == pytest.approx(ttest_1samp(np.mean(each, 0), 0).pvalue)


def test_what_is_missing_is_left_out_and_said():
    rows = [row for row in grid() if (row["norm"], row["position"]) != ("rms", "alibi")]
    rows = [row for row in rows if (row["norm"], row["seed"]) != ("rms", 3)]
    rotary, alibi = only(rows).found
    assert (rotary.pairs, rotary.notes) == (4, [])
    assert (alibi.pairs, alibi.p, alibi.verdict) == (0, None, "not judged")
    begun = grid()
    for row in begun:
        row["status"] = "missing" if row["position"] == "alibi" else "completed"
    rotary = only(begun).found[0]
    assert rotary.p_corrected == pytest.approx(2 * (rotary.p or 0)), "those to come are counted"
    assert rotary.difference_low == only(grid()).found[0].difference_low


def test_an_interaction_that_depends_on_diverged_runs_is_not_yet_known():
    rows = grid(depends=0.0)
    for row in rows:
        if (row["norm"], row["position"]) == ("rms", "rotary"):
            row |= {"status": "diverged", "val/loss": row["val/loss"] + 3}
    (found,) = interactions(rows, AXES, {}, "val/loss")
    assert found.sentence.startswith("not yet known whether the effect of norm depends on position")
    assert ", because it depends on the 5 runs that diverged: " in found.sentence


def test_without_cells_that_differ_on_two_axes_there_is_nothing_to_ask():
    rows = [row for row in grid() if row["norm"] == "layer" or row["position"] == "index"]
    assert interactions(rows, AXES, {}, "val/loss") == []
    equal = grid(depends=0.0)
    for row in equal:
        row["val/loss"] = 1.0
    assert only(equal).sentence.endswith("depends on position is not judged: no test")
