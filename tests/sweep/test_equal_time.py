"""Quality after equal time, and the line that can be quoted."""

import json
import re

import numpy as np
import pytest

from tests.sweep.made import failed, make
from tfzoo.runs.logged import logged_curves
from tfzoo.sweep.report.facts import quote
from tfzoo.sweep.report.markdown import markdown
from tfzoo.sweep.report.results import gather
from tfzoo.sweep.report.tables import equal_time, read

SEEDS = (1, 2, 3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A step of ``rms`` takes twice as long as one of ``layer``."""
    made = make(tmp_path_factory.mktemp("time") / "norms", SEEDS, ("layer", "rms"), ("sinusoidal",))
    for summary in made.glob("norm=rms,*/seed-*/summary.json"):
        found = json.loads(summary.read_text("utf-8"))
        found["fit"]["train_seconds"] *= 2
        summary.write_text(json.dumps(found), "utf-8")
    return made


def curve(folder, norm, seed):
    return logged_curves(folder / f"norm={norm},position=sinusoidal/seed-{seed}")["val/loss"]


def test_a_slow_cell_is_read_at_the_step_that_it_had_reached(folder):
    found = equal_time(gather([folder]))
    assert "15.2 s of training each, when layer · sinusoidal had ended" in found.caption
    (line,) = found.lines
    assert line[:2] == ["rms · sinusoidal", "150"]
    for text, steps in zip(line[2:], (300, 150), strict=True):
        differences = []
        for seed in SEEDS:
            slow, fast = (curve(folder, norm, seed) for norm in ("rms", "layer"))
            differences.append(np.interp(steps, [*slow], [*slow.values()]) - fast[300])
        said = float(text.split()[0].replace("\N{MINUS SIGN}", "-"))
        assert said == pytest.approx(np.mean(differences), abs=0.006)


def test_a_curve_is_a_line_between_validations_and_nothing_outside_them():
    validated = {20: 3.0, 40: 2.0}
    assert [read(validated, steps) for steps in (20, 25, 40)] == [3.0, 2.75, 2.0]
    assert [read(validated, steps) for steps in (19, 41)] == [None, None]


def test_one_validation_is_no_curve_and_the_report_says_so(tmp_path):
    made = make(tmp_path / "norms", SEEDS, ("layer", "rms"), ("sinusoidal",))
    for metrics in made.glob("*/*/metrics.csv"):
        metrics.write_text("step,train/loss,val/loss\n10,3,\n20,2,\n300,1,2.0\n", "utf-8")
    found = equal_time(gather([made]))
    assert found.lines == []
    assert found.caption.startswith("Not known after equal time: runs validated at most once")


def test_one_line_has_all_that_a_quotation_needs(tmp_path):
    made = make(tmp_path / "norms", (1, 2, 3, 4, 5), ("layer", "rms"), ("sinusoidal", "rotary"))
    assert re.fullmatch(
        r"position=rotary instead of sinusoidal: val/loss [12]\.\d+ -> 1\.\d+, "
        r"difference -0\.\d+ \(95 % CI -0\.\d+ to -0\.\d+\), better, 5 seeds, "
        r"p < 0\.001 after Holm's correction for 5 comparisons, tfzoo 0\.2\.0, "
        r"recipe translation/numbers, 300 steps",
        quote(gather([made])),
    ), quote(gather([made]))
    assert quote(gather([make(tmp_path / "one", (1,), ("layer", "rms"), ("sinusoidal",))])) == ""


def test_an_axis_of_one_value_is_averaged_over_by_nothing_and_seeds_are_counted_in_pairs(tmp_path):
    made = make(tmp_path / "norms", (1, 2, 3, 4, 5), ("layer",), ("sinusoidal", "rotary"))
    failed(made / "norm=layer,position=sinusoidal/seed-5", "its loss is not finite", "diverged")
    results = gather([made])
    assert quote(results).startswith("position=rotary instead of sinusoidal: val/loss ")
    assert ", 5 seeds, 1 of its runs diverged, " in quote(results)
    assert "averaged over" not in markdown(results, equal_time(results))
