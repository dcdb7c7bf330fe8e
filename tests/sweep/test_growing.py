"""A sweep that is looked at, grows, and is looked at again; runs that diverge; margins."""

from pathlib import Path

import numpy as np
import pytest
import yaml
from scipy.stats import binom, fisher_exact, t, ttest_1samp

from tests.sweep.made import make
from tests.sweep.test_judge import judged, of, rows
from tfzoo.commands.main import main
from tfzoo.errors import BadRecipe
from tfzoo.sweep.judge import sequential
from tfzoo.sweep.judge.design import Design, Margin, parse_margin
from tfzoo.sweep.judge.paired import correct, critical, equivalence, interval
from tfzoo.sweep.plan.sweep_file import Fields

GRID = (("layer", "rms"), ("sinusoidal", "rotary"))


# The bounds of a growing sample


@pytest.mark.parametrize("level", [0.05, 0.0125])
@pytest.mark.parametrize("most", [4, 12])
def test_all_looks_together_have_the_level_whatever_the_variance(most, level):
    samples = 60_000
    values = np.random.default_rng(most).standard_normal((samples, most))
    values *= np.random.default_rng(0).uniform(0.1, 10, (samples, 1))
    called = np.zeros(samples, bool)
    for seeds in range(3, most + 1):
        called |= interval(values[:, :seeds], most=most).p < level
        # By then, no more is spent than the share that was planned.
        spent = level * (seeds / most) ** sequential.LATE
        low, high = binom.interval(0.999, samples, spent)
        assert 0.97 * low - 5 <= called.sum() <= 1.03 * high


def test_intervals_and_p_of_a_growing_sample_agree():
    values = np.random.default_rng(1).standard_normal((200, 7)) + 0.7
    found = interval(values, 0.05, most=10)
    excluded = (found.low > 0) | (found.high < 0)
    assert excluded.any()
    assert not excluded.all()
    np.testing.assert_array_equal(excluded, found.p < 0.05)


def test_one_look_is_students_test():
    for statistic in (0.3, 2.0, 40.0):
        assert sequential.p_value(statistic, 3, 3) == pytest.approx(
            2 * t.sf(statistic, 2), rel=0.01
        )
    assert critical(0.05, 5) == pytest.approx(t.isf(0.025, 4))
    assert critical(0.05, 5, most=4) == critical(0.05, 5), "past what was declared"


def test_the_last_look_costs_little_and_early_ones_much():
    ratios = [critical(0.05, seeds, 20) / critical(0.05, seeds) for seeds in (3, 5, 10, 20)]
    assert ratios == sorted(ratios, reverse=True)
    assert ratios[-1] < 1.15
    assert ratios[0] > 2.6, "than of a flat boundary"


# More seeds later


def two(seeds, difference=-0.4):
    noise = [0.05, -0.03, 0.04, -0.06, 0.01, 0.02, -0.04, 0.03]
    layer = [2.0 + seed / 7 for seed in range(seeds)]
    return rows({"layer": layer, "rms": [a + difference + b for a, b in zip(layer, noise)]})  # noqa: B905 # noise is longer


def test_seeds_added_after_a_verdict_give_an_estimate_and_a_hint():
    grown = of(judged(two(5), design=Design(earlier=(3,))), "rms")
    once = of(judged(two(5)), "rms")
    assert (once.verdict, grown.verdict) == ("better", "not yet known")
    assert (grown.difference, grown.p) == (once.difference, once.p)
    assert grown.sentence.startswith(
        "rms: not yet known whether it differs from layer, because it was judged with 3 seeds "
        "before it had 5: difference -0.39"
    )
    assert grown.sentence.endswith(", a hint that it is better")


def test_a_sweep_that_declared_its_growth_has_verdicts_on_the_way_and_none_past_it():
    design = Design(most=6)
    found = {seeds: of(judged(two(seeds), design=design), "rms") for seeds in (3, 5, 6, 7)}
    assert {seeds: one.verdict for seeds, one in found.items()} == {
        3: "better",
        5: "better",
        6: "better",
        7: "not yet known",
    }
    assert "it grew past the 6 seeds that it declared" in found[7].sentence
    plain = of(judged(two(5)), "rms")
    assert (found[5].p or 0) > (plain.p or 0)


def test_a_verdict_waits_for_runs_that_failed_or_are_not_finished():
    for status, said, most, verdict in (
        ("failed", "seed 5 failed", None, "not yet known"),
        ("failed", "seed 5 failed", 5, "not yet known"),
        ("missing", "seed 5 is not finished", None, "not yet known"),
        ("missing", "", 5, "better"),
    ):
        table = two(5)
        table[-1] |= {"status": status}
        one = of(judged(table, design=Design(most=most)), "rms")
        assert one.verdict == verdict, (status, most)
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
    for name in ("report.md", "report.html"):
        assert "judged with 2 and 3 seeds before" in Path("norms", name).read_text("utf-8")


def test_growth_that_was_declared_is_no_growth(own_folder, capsys):
    for seeds in ((1, 2, 3, 4), (1, 2, 3, 4, 5)):
        make(Path("norms"), seeds, *GRID)
        file = yaml.safe_load(Path("norms/sweep.yaml").read_text())
        Path("norms/sweep.yaml").write_text(yaml.safe_dump({**file, "looks": [3, 4, 5]}))
        assert main(["report", "norms"]) == 0
    out = capsys.readouterr().out
    assert "judged with" not in out
    assert "may grow to 5 seeds" in Path("norms/report.html").read_text("utf-8")


# Margins


def test_equivalence_is_two_one_sided_tests():
    values = np.array([0.02, -0.01, 0.03, 0.0, 0.015])
    sides = (
        ttest_1samp(values + 0.05, 0, alternative="greater").pvalue,
        ttest_1samp(values - 0.05, 0, alternative="less").pvalue,
    )
    assert equivalence(values, 0.05) == pytest.approx(max(sides))


def test_equivalent_and_not_yet_known_are_different_sentences():
    base = [2.0, 2.5, 3.0, 2.2, 2.7]
    near = [2.001, 2.499, 3.002, 2.2, 2.699]
    far = [2.1, 2.3, 3.1, 2.4, 2.6]
    table = rows({"layer": base, "rms": near, "batch": far})
    design = Design(margin=Margin(0.01, is_share=True))
    found = judged(table, design=design)
    rms, batch = of(found, "rms"), of(found, "batch")
    assert (rms.verdict, batch.verdict) == ("equivalent", "not yet known")
    assert rms.sentence.startswith(
        "rms: equivalent to layer within 1 % of layer's mean: difference 0.0002"
    )
    assert batch.sentence.startswith(
        "batch: not yet known whether it differs from layer by 1 % of layer's mean, with 5 seeds: "
    )
    assert " seeds would decide, if the difference is as large as it seems" in batch.sentence
    p = [float(equivalence(np.subtract(own, base), np.multiply(0.01, base))) for own in (near, far)]
    assert [rms.p_equivalent_corrected, batch.p_equivalent_corrected] == pytest.approx(correct(p))
    without = judged(table)
    assert of(without, "rms").verdict == "not yet known"


def test_a_difference_that_is_real_and_small_says_both():
    base = [2.0, 2.5, 3.0, 2.2, 2.7]
    table = rows(
        {
            "layer": base,
            "rms": [a - 0.01 + b for a, b in zip(base, [0.001, -0.001, 0, 0.0005, 0], strict=True)],
        }
    )
    one = of(judged(table, design=Design(margin=Margin(0.1))), "rms")
    assert one.verdict == "better"
    assert one.sentence.endswith("; by less than the margin of 0.1")


def test_false_equivalence_at_the_margin_is_5_percent():
    values = 1.0 + np.random.default_rng(0).standard_normal((20_000, 6)) / 3
    called = (equivalence(values, 1.0) < 0.05).sum()
    assert binom.ppf(0.001, 20_000, 0.045) <= called <= binom.ppf(0.999, 20_000, 0.05)


@pytest.mark.parametrize("given", [0, -1, "1", "x %", True, float("inf"), [1], "0 %"])
def test_a_margin_is_a_number_or_a_share(given):
    with pytest.raises(ValueError, match="margin is a number of points above 0, or a share"):
        parse_margin(given)
    assert parse_margin("2.5 %") == parse_margin("2.5%") == Margin(0.025, is_share=True)
    assert (parse_margin(2), parse_margin(None)) == (Margin(2.0), None)


def test_how_far_a_sweep_may_grow_is_checked():
    tree = {"recipe": "x", "seeds": [1, 2, 3, 4]}
    for given in ([3], [2, 4], [4, 1001], "20", 4, [True, 5], [5, 4], [4, 4], [4.0]):
        with pytest.raises(BadRecipe, match="looks"):
            Fields(Path("s.yaml"), {**tree, "looks": given}).looks([1, 2, 3, 4])
    assert Fields(Path("s.yaml"), {**tree, "looks": [4, 9]}).looks([1, 2, 3, 4]) == [4, 9]
    assert Fields(Path("s.yaml"), tree).looks([1, 2, 3, 4]) == []


def test_a_number_of_seeds_stands_for_as_many():
    assert Fields(Path("s.yaml"), {"recipe": "x", "seeds": 3}).seeds() == [1, 2, 3]
    for given in (0, True, 3.0):
        with pytest.raises(BadRecipe, match="seeds is how many, or a list"):
            Fields(Path("s.yaml"), {"recipe": "x", "seeds": given}).seeds()


# Runs that diverge


def test_diverged_runs_are_counted_and_leave_the_differences():
    table = two(6)
    for row in table[-2:]:
        row |= {"status": "diverged", "reason": "train/loss is 9"}
    found = judged(table)
    rms = of(found, "rms")
    assert rms.seeds == 4
    assert rms.p == pytest.approx(of(judged(two(4)), "rms").p)
    assert "seeds 5, 6 diverged: train/loss is 9" in rms.notes
    (one,) = found.diverged
    assert (one.own, one.base) == ((2, 6), (0, 6))
    assert one.p == pytest.approx(fisher_exact([[2, 4], [0, 6]]).pvalue)
    assert one.sentence == (
        "rms: 2 of 6 runs diverged, 0 of 6 of layer: not yet known whether that differs, "
        "p = 0.45 (Fisher's exact test)"
    )
    pruned = {"model.norm": "batch", "status": "pruned"}
    gone = [{**pruned, "seed": 1, "status": "diverged"}, {**pruned, "seed": 2}]
    (same,) = judged([*table, *gone]).diverged
    assert same.p_corrected == pytest.approx(2 * one.p), "what was pruned is counted, not tested"


def test_a_cell_that_always_diverges_is_said_to_do_so():
    table = two(6)
    for row in table[-6:]:
        row["val/loss"] = float("nan")
    found = judged(table)
    assert of(found, "rms").sentence == "rms: not judged: all its runs diverged"
    (one,) = found.diverged
    assert one.sentence == (
        "rms: 6 of 6 runs diverged, 0 of 6 of layer: more often, p = 0.0022 (Fisher's exact test)"
    )
    (grown,) = judged(table, design=Design(earlier=(3,))).diverged
    assert "not yet known whether that differs" in grown.sentence
    # By 6 of at most 12 seeds an eighth of the level is spent, of which this look has its part.
    (declared,) = judged(table, design=Design(most=12)).diverged
    assert declared.p == pytest.approx(one.p * 12**3 / (6**3 - 5**3))
