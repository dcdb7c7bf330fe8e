"""What a report is made of: folders put together, cells by name, metrics by direction."""

from dataclasses import replace

import pytest
import yaml

from tests.sweep.made import make
from tfzoo.errors import BadRun, UnknownName
from tfzoo.sweep.plan.sweep_file import Metric, Plan
from tfzoo.sweep.report.results import gather, title

NORMS, POSITIONS = ("layer", "rms"), ("sinusoidal", "rotary")


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    return make(tmp_path_factory.mktemp("here") / "norms", (1, 2, 3), NORMS, POSITIONS)


def started(folder, seed, **model):
    """Writes the recipe of a run."""
    recipe = {
        "seed": seed,
        "model": {"dim": 16, **model},
        "data": {"root": str(folder)},
        "optim": {"lr": 0.1 * seed},
    }
    (folder / f"norm=rms,position=rotary/seed-{seed}/config.yaml").write_text(
        yaml.safe_dump(recipe), "utf-8"
    )


def test_a_repeat_has_other_seeds_the_same_cells_and_the_same_recipe(first, tmp_path):
    with pytest.raises(BadRun, match="seed 3 in both folders: a repeat has other seeds"):
        gather(first, None, make(tmp_path / "three", (3, 4, 5), NORMS, POSITIONS))
    with pytest.raises(
        BadRun, match="cell norm=rms,position=rotary is there in one, missing in the"
    ):
        gather(first, None, make(tmp_path / "fewer", (4, 5), NORMS[:1], POSITIONS))
    one, other = (
        make(tmp_path / "one", (1, 2, 3), NORMS, POSITIONS),
        make(tmp_path / "other", (4, 5), NORMS, POSITIONS),
    )
    for folder in (one, other):
        file = yaml.safe_load((folder / "sweep.yaml").read_text("utf-8"))
        (folder / "sweep.yaml").write_text(
            yaml.safe_dump({**file, "tune": {"key": "optim.lr", "values": [0.1, 0.4]}}), "utf-8"
        )
    started(one, 2)
    started(other, 5)
    assert gather(one, None, other).repeats
    again = yaml.safe_load((other / "sweep.yaml").read_text("utf-8"))
    again["tune"]["values"] = [0.2, 0.4]
    retuned = yaml.safe_dump(again)
    again["tune"]["values"] = [0.1, 0.4]
    (other / "sweep.yaml").write_text(retuned, "utf-8")
    with pytest.raises(BadRun, match=r"tune is optim.lr among \[0.1, 0.4\] in one, .*\[0.2, 0.4\]"):
        gather(one, None, other)
    (other / "sweep.yaml").write_text(yaml.safe_dump(again), "utf-8")
    started(other, 5, dim=512)
    with pytest.raises(
        BadRun, match=r"in norm=rms,position=rotary, model\.dim is 16 in one, 512 in the other"
    ):
        gather(one, None, other)


def test_another_metric_is_judged_in_its_direction(first):
    for name, mode in (
        ("test/loss", "min"),
        ("val/exact_match", "max"),
        ("tokens_per_second", "max"),
        ("peak_memory", "min"),
    ):
        (verdicts,) = gather(first, name).verdicts
        assert (verdicts.metric, verdicts.mode) == (name, mode)
    assert [(one.metric, one.mode) for one in gather(first).verdicts] == [
        ("val/loss", "min"),
        ("test/long/exact_match", "max"),
    ]
    with pytest.raises(UnknownName, match=r"no metric named 'val/los'\. Did you mean 'val/loss'\?"):
        gather(first, "val/los")


def test_a_cells_title_says_what_would_not_be_understood_alone():
    axes = {
        "model.norm": ["layer", "none"],
        "model.position": ["rotary", "none"],
        "model.heads": ["1", "4"],
    }
    baseline = {"model.norm": "layer", "model.position": "rotary", "model.heads": "1"}
    named = {axis: {label: {} for label in labels} for axis, labels in axes.items()}
    grid = Plan(named, [1], Metric("val/loss", "min"), baseline=baseline)
    around = replace(grid, mode="one_at_a_time")
    cell = {"model.norm": "layer", "model.position": "none", "model.heads": "4"}
    assert title(cell, grid) == "layer · position none · heads 4"
    assert title(cell, around) == "position none · heads 4"
    assert title(baseline, around) == "baseline"
