"""A sweep that is looked at, grows, and is looked at again; runs that diverge; margins."""

from pathlib import Path

import numpy as np
import pytest
import yaml
from scipy.stats import binom, boschloo_exact, t, ttest_1samp

from tests.sweep.made import make
from tests.sweep.test_judge import AXES, judged, of, rows
from tfzoo.commands.main import main
from tfzoo.errors import BadRecipe
from tfzoo.sweep.judge import sequential
from tfzoo.sweep.judge.design import Design, Margin, parse_margin
from tfzoo.sweep.judge.paired import critical, equivalence, holm, interval
from tfzoo.sweep.judge.sentences import format_p
from tfzoo.sweep.judge.verdicts import judge
from tfzoo.sweep.plan.sweep_file import parse

GRID = (("layer", "rms"), ("sinusoidal", "rotary"))


# The bounds of a growing sample


@pytest.mark.parametrize("level", [0.05, 0.0125])
@pytest.mark.parametrize("looks", [(3, 4), (5, 10), tuple(range(3, 13))])
def test_all_looks_together_have_the_level_whatever_the_variance(looks, level):
    samples, most = 60_000, looks[-1]
    values = np.random.default_rng(most).standard_normal((samples, most))
    values *= np.random.default_rng(0).uniform(0.1, 10, (samples, 1))
    called = np.zeros(samples, bool)
    for seeds in looks:
        called |= interval(values[:, :seeds], looks=looks).p < level
        # By then, no more is spent than the share that was planned.
        spent = level * (seeds / most) ** sequential.LATE
        low, high = binom.interval(0.999, samples, spent)
        assert 0.97 * low - 5 <= called.sum() <= 1.03 * high


def test_intervals_and_p_of_a_growing_sample_agree_and_no_verdict_is_taken_back():
    values = np.random.default_rng(1).standard_normal((200, 10)) + 0.7
    first, last = (interval(values[:, :seeds], 0.05, looks=(7, 10)) for seeds in (7, 10))
    excluded = (first.low > 0) | (first.high < 0)
    assert excluded.any()
    assert not excluded.all()
    np.testing.assert_array_equal(excluded, first.p < 0.05)
    assert (last.p <= first.p).all(), "p is the smallest so far"
    assert ((last.low <= 0) & (last.high >= 0) & (last.p < 0.05)).any()
    assert (last.sign[first.p < 0.05] == np.sign(first.mean[first.p < 0.05])).all()


def test_one_look_is_students_test():
    for statistic in (0.3, 2.0, 40.0):
        found = sequential.p_value(statistic, 3, (3,))
        assert found == pytest.approx(2 * t.sf(statistic, 2), rel=0.01)
    assert critical(0.05, 5) == pytest.approx(t.isf(0.025, 4), rel=1e-12)
    assert critical(0.05, 5, (5,)) == pytest.approx(t.isf(0.025, 4), rel=0.01)


# More seeds later


def two(seeds, difference=-0.4):
    noise = [0.05, -0.03, 0.04, -0.06, 0.01, 0.02, -0.04, 0.03]
    layer = [2.0 + seed / 7 for seed in range(seeds)]
    return rows({"layer": layer, "rms": [a + difference + b for a, b in zip(layer, noise)]})  # noqa: B905 # noise is longer


def test_seeds_added_after_a_verdict_give_an_estimate_alone():
    grown = of(judged(two(5), design=Design(earlier=(3,))), "rms")
    once = of(judged(two(5)), "rms")
    assert (once.verdict, grown.verdict) == ("better", "not yet known")
    assert (grown.difference, grown.p) == (once.difference, once.p)
    assert "because it was judged with 3 seeds before it had 5: difference -0.39" in grown.sentence
    assert "hint" not in grown.sentence


def test_a_sweep_has_verdicts_at_the_looks_that_it_declared_and_of_their_seeds_alone():
    design = Design(looks=(5, 7))
    found = {seeds: of(judged(two(seeds), design=design), "rms") for seeds in (3, 5, 6, 7, 8)}
    assert {seeds: (one.verdict, one.pairs) for seeds, one in found.items()} == {
        3: ("not yet known", 3),
        5: ("better", 5),
        6: ("better", 5),
        7: ("better", 7),
        8: ("better", 7),
    }
    assert found[3].sentence.endswith("; a verdict needs 5")
    assert found[8].p == found[7].p
    assert ", sequential p = " in found[5].sentence or ", sequential p < " in found[5].sentence
    plain = of(judged(two(5)), "rms")
    assert (found[5].p or 0) > (plain.p or 0)


def test_a_verdict_waits_for_runs_that_failed_or_are_not_finished():
    for status, said, looks, verdict in (
        ("failed", "seed 5 failed", (), "not yet known"),
        ("failed", "seed 5 failed", (4, 5), "not yet known"),
        ("missing", "seed 5 is not finished", (), "not yet known"),
        ("missing", "", (4, 5), "better"),
    ):
        table = two(5)
        table[-1] |= {"status": status}
        one = of(judged(table, design=Design(looks=looks)), "rms")
        assert one.verdict == verdict, (status, looks)
        assert f"because {said}: " in one.sentence or not said


def test_a_report_remembers_with_which_seeds_the_sweep_was_judged(own_folder, capsys):
    make(Path("norms"), (1, 2), *GRID)
    assert main(["report", "norms"]) == 0
    assert "a verdict needs 3" in capsys.readouterr().out
    make(Path("norms"), (1, 2, 3), *GRID)
    assert main(["report", "norms"]) == 0
    assert "position rotary, averaged over norm: a hint: better than" in capsys.readouterr().out
    assert main(["report", "norms"]) == 0  # a second look at the same seeds changes nothing
    assert "position rotary, averaged over norm: a hint: better than" in capsys.readouterr().out
    make(Path("norms"), (1, 2, 3, 4, 5), *GRID)
    assert main(["report", "norms"]) == 0
    out = capsys.readouterr().out
    assert "because it was judged with 2 and 3 seeds before it had 5" in out
    assert "20 of 20 completed; 5 of 5 comparisons have no verdict, because the sweep was " in out
    assert "wait for" not in out
    for name in ("report.md", "report.html"):
        assert "judged with 2 and 3 seeds before" in Path("norms", name).read_text("utf-8")


def test_growth_that_was_declared_is_no_growth(own_folder, capsys):
    for seeds in ((1, 2, 3, 4), (1, 2, 3, 4, 5)):
        make(Path("norms"), seeds, *GRID)
        file = yaml.safe_load(Path("norms/sweep.yaml").read_text())
        Path("norms/sweep.yaml").write_text(yaml.safe_dump({**file, "looks": [3, 4, 5]}))
        assert main(["report", "norms"]) == 0
    first, out = capsys.readouterr().out.split("norms/report.md\n")[:2]
    assert "To go on to 5 seeds: tfzoo sweep norms.yaml --jobs 2 --seeds 1,2,3,4,5\n" in first
    assert "judged with" not in out
    assert "looks: [3, 4, 5]" in Path("norms/report.html").read_text("utf-8")


# Margins


def test_equivalence_is_two_one_sided_tests():
    values = np.array([0.02, -0.01, 0.03, 0.0, 0.015])
    sides = (
        ttest_1samp(values + 0.05, 0, alternative="greater").pvalue,
        ttest_1samp(values - 0.05, 0, alternative="less").pvalue,
    )
    assert equivalence(values, 0.05) == pytest.approx(max(sides), rel=1e-12)


def test_equivalent_and_not_yet_known_are_different_sentences():
    base = [2.0, 2.5, 3.0, 2.2, 2.7]
    near = [2.001, 2.499, 3.002, 2.2, 2.699]
    far = [2.1, 2.3, 3.1, 2.4, 2.6]
    table = rows({"layer": base, "rms": near, "batch": far})
    design = Design(margin=Margin(0.01, is_share=True))
    found = judged(table, design=design)
    rms, batch = of(found, "rms"), of(found, "batch")
    assert (rms.verdict, batch.verdict) == ("equivalent", "not yet known")
    assert rms.sentence.startswith("rms: equivalent to layer within 1 % of layer's mean: diff")
    known = (
        "batch: not yet known whether it differs from layer by 1 % of layer's mean, with 5 seeds"
    )
    assert batch.sentence.startswith(known)
    p = [float(equivalence(np.subtract(own, base), np.multiply(0.01, base))) for own in (near, far)]
    assert [rms.p_equivalent_corrected, batch.p_equivalent_corrected] == pytest.approx(holm(p))
    without = judged(table)
    assert of(without, "rms").verdict == "not yet known"


def test_a_difference_that_is_real_and_small_says_both():
    base = [2.0, 2.5, 3.0, 2.2, 2.7]
    table = rows({"layer": base, "rms": np.add(base, [-0.009, -0.011, -0.01, -0.0095, -0.01])})
    one = of(judged(table, design=Design(margin=Margin(0.1))), "rms")
    assert one.verdict == "better"
    assert one.sentence.endswith("; by less than the margin of 0.1")


@pytest.mark.parametrize("given", [0, -1, "1", "x %", True, float("inf"), [1], "0 %"])
def test_a_margin_is_a_number_or_a_share(given):
    with pytest.raises(BadRecipe, match="margin is a number of points above 0, or a share"):
        parse_margin(given)
    assert parse_margin("2.5 %") == parse_margin("2.5%") == Margin(0.025, is_share=True)
    assert (parse_margin(2), parse_margin(None)) == (Margin(2.0), None)


def planned(**changes):
    tree = {"recipe": "x", "axes": {"model.norm": ["rms"]}, "seeds": 4}
    metric = {"name": "val/loss", "mode": "min"}
    return parse(Path("s.yaml"), {**tree, "metric": metric, **changes})


def test_how_far_a_sweep_may_grow_is_checked():
    for given in ([3], [2, 4], [4, 1001], "20", 4, [True, 5], [5, 4], [4, 4], [4.5]):
        with pytest.raises(BadRecipe, match="looks"):
            planned(looks=given)
    assert planned(looks=[4, 9]).looks == [4, 9]
    assert planned().looks == []


# Runs that diverge


def test_diverged_runs_are_marked_and_keep_their_scores():
    table = two(6)
    for row in table[-2:]:
        row |= {"status": "diverged"}
    found = judged(table)
    rms = of(found, "rms")
    assert (rms.verdict, rms.seeds, rms.diverged) == ("better", 6, "2 runs that diverged")
    assert rms.p == of(judged(two(6)), "rms").p
    assert rms.sentence.endswith("; so it is without the 2 runs that diverged")
    (one,) = found.diverged
    assert (one.own, one.base) == ((2, 6), (0, 6))
    assert one.p == pytest.approx(boschloo_exact([[2, 0], [4, 6]]).pvalue)
    assert one.sentence == (
        "rms: 2 of 6 runs diverged, 0 of 6 of layer: not yet known whether that differs, "
        f"{format_p(one.p)} (Boschloo's test, Holm's correction); 0 of 6: a rate of up to 39 %"
    )


def test_a_verdict_that_depends_on_diverged_runs_is_not_yet_known():
    table = two(6)
    for row in table[-2:]:
        row |= {"status": "diverged", "val/loss": 9.0}
    rms = of(judged(table), "rms")
    assert (rms.verdict, rms.depends) == ("not yet known", True)
    every, without = (of(judged(one), "rms") for one in (two_of(table), two(4)))
    assert (every.verdict, without.verdict) == ("not yet known", "better")
    start, _, both = rms.sentence.partition(". With all runs difference ")
    assert start.endswith("whether it differs from layer: it depends on the 2 runs that diverged")
    for said, one in zip(both.split("; without them difference "), (every, without), strict=True):
        assert said.startswith(f"{one.difference:.1f}")


def two_of(table):
    """The same scores, none of them of a run that diverged."""
    return [{**row, "status": "completed"} for row in table]


def test_one_context_in_which_all_runs_diverged_makes_no_main_effect():
    axes = {"norm": ["layer", "rms"], "context": ["small", "large"]}
    noise = np.random.default_rng(0).normal(0, 0.05, (2, 2, 5))
    table = [
        {"norm": norm, "context": context, "seed": seed, "val/loss": 2 + noise[i, j, seed]}
        for i, norm in enumerate(axes["norm"])
        for j, context in enumerate(axes["context"])
        for seed in range(5)
    ]
    for row in table:
        if (row["norm"], row["context"]) == ("layer", "large"):
            row |= {"status": "diverged", "val/loss": row["val/loss"] + 2}
    assert of(judged(two_of(table), axes), "rms").verdict == "better"
    rms = of(judged(table, axes), "rms")
    assert rms.verdict == "not yet known"
    assert "it depends on the 5 runs that diverged. With all runs difference -1" in rms.sentence


def test_a_score_that_is_not_finite_becomes_that_of_an_untrained_model():
    table = two(5)
    table[-1] |= {"val/loss": float("nan")}
    stands = [*table[:-1], {**table[-1], "val/loss": 4.0}]
    own = judge(table, AXES, {}, "val/loss", "min", untrained=4.0)
    assert of(own, "rms").mean == of(judged(stands), "rms").mean
    worst = max(row["val/loss"] for row in table[:-1])
    stands[-1]["val/loss"] = worst
    assert of(judged(table), "rms").mean == of(judged(stands), "rms").mean


def test_a_cell_that_always_diverges_is_said_to_do_so():
    table = two(5)
    for row in table[-5:]:
        row["val/loss"] = float("nan")
    found = judged(table)
    assert of(found, "rms").verdict == "not yet known"
    assert "; without them no test" in of(found, "rms").sentence
    (one,) = found.diverged
    assert one.sentence == (
        "rms: 5 of 5 runs diverged, 0 of 5 of layer: more often, "
        "p = 0.002 (Boschloo's test, Holm's correction); 0 of 5: a rate of up to 45 %"
    )
    (grown,) = judged(table, design=Design(earlier=(3,))).diverged
    assert "not yet known whether that differs, because it was judged with 3 s" in grown.sentence
    # At 5 of 10 seeds an eighth of the level is spent.
    (declared,) = judged(table, design=Design(looks=(5, 10))).diverged
    assert declared.p == pytest.approx(8 * one.p)
    (early,) = judged(table, design=Design(looks=(6, 10))).diverged
    assert "the first look is at 6 seeds" in early.sentence
