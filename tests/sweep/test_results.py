"""What a report is made of: folders put together, cells by name, metrics by direction."""

import shutil

import pytest
import yaml

from tests.sweep.made import make
from tfzoo.errors import BadRun, UnknownName
from tfzoo.sweep.report.results import gather, title

NORMS, POSITIONS = ("layer", "rms"), ("sinusoidal", "rotary")


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    return make(tmp_path_factory.mktemp("here") / "norms", (1, 2, 3), NORMS, POSITIONS)


def test_folders_with_other_seeds_are_one_sweep(first, tmp_path):
    other = make(tmp_path / "norms", (3, 4, 5), NORMS, POSITIONS)
    together = gather([first, other])
    alone = gather([first])
    assert [row["seed"] for row in together.rows[:5]] == [1, 2, 3, 4, 5]
    assert len(together.rows) == 4 * 5
    assert [cell.name for cell in together.cells] == [cell.name for cell in alone.cells]
    assert together.verdicts[0].cells[0].seeds == 5
    assert together.notes == ["4 runs are in more than one folder; the first folder's count"]
    assert together.repeats == {}, "folders that share seeds are parts of one sweep"
    elsewhere = next(row for row in together.rows if row["seed"] == 5)
    assert (first / elsewhere["run_folder"] / "summary.json").is_file()
    assert (first / elsewhere["checkpoint_path"]).is_file()


def test_a_run_that_is_half_done_in_one_folder_is_taken_from_the_other(first, tmp_path):
    half = make(tmp_path / "norms", (1, 2, 3), NORMS, POSITIONS)
    shutil.rmtree(half / "norm=rms,position=rotary/seed-2")
    assert [row["status"] for row in gather([half, first]).rows] == ["completed"] * 12


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("budget", {"steps": 600}, "budget.steps"),
        ("recipe", "translation/multi30k", "recipe"),
        ("overrides", {}, "overrides.model.dim"),
    ],
)
def test_folders_that_cannot_be_compared_are_refused(first, tmp_path, key, value, said):
    other = make(tmp_path / "norms", (4,), NORMS, POSITIONS)
    file = yaml.safe_load((other / "sweep.yaml").read_text("utf-8"))
    (other / "sweep.yaml").write_text(yaml.safe_dump({**file, key: value}), "utf-8")
    with pytest.raises(BadRun, match=f"cannot be compared: {said} is ") as error:
        gather([first, other])
    assert "{" not in str(error.value), "the value that differs, not a dict"


def test_runs_that_were_started_with_another_recipe_are_not_put_together(first, tmp_path):
    def started(folder, seed, **model):
        recipe = {
            "seed": seed,
            "model": {"dim": 16, **model},
            "data": {"root": str(folder)},
            "optim": {"lr": 0.1 * seed},
        }
        (folder / f"norm=rms,position=rotary/seed-{seed}/config.yaml").write_text(
            yaml.safe_dump(recipe), "utf-8"
        )

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
    assert len(gather([one, other]).rows) == 4 * 5
    started(other, 5, dim=512)
    with pytest.raises(
        BadRun,
        match=r"in norm=rms,position=rotary, model\.dim is 16 in one, 512 in the other",
    ):
        gather([one, other])


def test_another_metric_is_judged_in_its_direction(first):
    for name, mode in (
        ("test/loss", "min"),
        ("val/exact_match", "max"),
        ("tokens_per_second", "max"),
        ("peak_memory", "min"),
    ):
        (verdicts,) = gather([first], name).verdicts
        assert (verdicts.metric, verdicts.mode) == (name, mode)
    assert [(one.metric, one.mode) for one in gather([first]).verdicts] == [
        ("val/loss", "min"),
        ("test/long/exact_match", "max"),
    ]
    with pytest.raises(UnknownName, match=r"no metric named 'val/los'\. Did you mean 'val/loss'\?"):
        gather([first], "val/los")


def test_a_cells_title_says_what_would_not_be_understood_alone():
    axes = {
        "model.norm": ["layer", "none"],
        "model.position": ["rotary", "none"],
        "model.heads": ["1", "4"],
    }
    baseline = {"model.norm": "layer", "model.position": "rotary", "model.heads": "1"}
    cell = {"model.norm": "layer", "model.position": "none", "model.heads": "4"}
    assert title(cell, axes, baseline, {"mode": "grid"}) == "layer · position none · heads 4"
    assert title(cell, axes, baseline, {"mode": "one_at_a_time"}) == "position none · heads 4"
    assert title(baseline, axes, baseline, {"mode": "one_at_a_time"}) == "baseline"
