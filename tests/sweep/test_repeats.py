"""A sweep that is run again with other seeds: what held, what did not, and what is no repeat."""

from pathlib import Path

import pytest
from scipy.stats import ttest_1samp

from tests.sweep.made import make
from tfzoo.commands.main import main
from tfzoo.sweep.judge.design import Design, Margin
from tfzoo.sweep.judge.verdicts import judge, repeats

AXES = {"norm": ["layer", "rms"]}
NOISE = [0.010, -0.008, 0.003, -0.011, 0.006]


def rows(difference, seeds, machine=0.0):
    """Five pairs whose mean difference is exactly this, on a machine whose losses are higher."""
    found = []
    for seed, noise in zip(seeds, NOISE, strict=True):
        for norm, own in (("layer", 0.0), ("rms", difference + noise)):
            row = {"norm": norm, "seed": seed, "status": "completed"}
            found.append({**row, "val/loss": 2 + machine + seed / 9 + own})
    return found


def compared(first, again, axes=AXES, **options):
    """By the loss in validation."""
    both = (judge(rows, axes, {}, "val/loss", "min", **options) for rows in (first, again))
    return repeats(*both)


def repeated(first, again, machine=0.0):
    return compared(rows(first, range(1, 6)), rows(again, range(6, 11), machine))


def only(found):
    (one,) = found
    return one


@pytest.mark.parametrize(
    ("first", "again", "outcome"),
    [
        (-0.05, -0.04, "held"),
        (-0.012, 0.0, "not confirmed"),
        (-0.012, -0.005, "not confirmed"),
        (-0.03, -0.001, "not confirmed"),
        (-0.05, 0.05, "turned round"),
    ],
)
def test_whether_a_verdict_held_is_the_repeats_own_answer(first, again, outcome):
    assert only(repeated(first, again)).outcome == outcome


def test_a_repeat_of_one_seed_is_too_few_to_tell_and_of_three_is_enough():
    first, again = rows(-0.05, range(1, 6)), rows(-0.05, range(6, 11))
    outcomes = {}
    for seeds in (1, 2, 3, 5):
        found = only(compared(first, again[: 2 * seeds]))
        outcomes[seeds] = found.outcome
        assert (found.p is None) == (seeds < 3)
    assert outcomes == {1: "too few to tell", 2: "too few to tell", 3: "held", 5: "held"}
    gone = [{**row, "status": "diverged"} if row["norm"] == "rms" else row for row in again]
    found = only(compared(first, gone))
    assert (found.again.depends, found.outcome) == (True, "not confirmed")
    failed = [{**row, "status": "failed"} if row["seed"] == 10 else row for row in again]
    found = only(compared(first, failed))
    assert found.outcome == "too few to tell", "which run failed may depend on the score"


def test_the_repeats_p_is_one_sided_in_the_direction_of_the_first():
    one = only(repeated(-0.05, -0.02))
    values = [-0.02 + noise for noise in NOISE]
    assert one.p == pytest.approx(ttest_1samp(values, 0, alternative="less").pvalue)
    two = only(repeated(-0.05, 0.02))
    turned = [value + 0.04 for value in values]
    assert two.p == pytest.approx(ttest_1samp(turned, 0, alternative="less").pvalue)


def test_equivalence_is_repeated_as_equivalence():
    design = Design(margin=Margin(0.05))
    first, again = rows(0.001, range(1, 6)), rows(0.002, range(6, 11))
    one = only(compared(first, again, design=design))
    assert one.first.verdict == one.again.verdict == "equivalent"
    assert one.outcome == "held"
    wide = only(compared(first, rows(0.06, range(6, 11)), design=design))
    assert (wide.again.verdict, wide.outcome) == ("worse", "not confirmed")


def test_a_report_of_two_folders_says_what_held(own_folder, capsys):
    grid = (("layer", "rms"), ("sinusoidal", "rotary"))
    make(Path("norms"), (1, 2, 3, 4, 5), *grid)
    make(Path("again"), (6, 7, 8, 9, 10), *grid)
    assert main(["report", "norms", "again"]) == 0
    files = (Path("norms", f"report.{kind}").read_text("utf-8") for kind in ("md", "html"))
    for text in (capsys.readouterr().out, *files):
        assert "Again with other seeds" in text
        assert "val/loss: of " in text
        line = next(one for one in text.splitlines() if "position rotary: held: " in one)
        assert line.count(" to ") == 2
