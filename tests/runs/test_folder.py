"""A new folder for each run, one for all its processes; a summary that grows by sections."""

import json
import os
from contextlib import nullcontext
from pathlib import Path

import pytest

from tfzoo.errors import BadRun
from tfzoo.runs.folder import (
    SHARED,
    check_config,
    choose,
    logged_curves,
    opened,
    read_config,
    read_summary,
    similar_runs,
    write_config,
    write_summary,
)
from tfzoo.training.progress import MetricsFile

RANKS = ("RANK", "LOCAL_RANK", "NODE_RANK", "GROUP_RANK", "LOCAL_WORLD_SIZE", "SLURM_PROCID")


@pytest.fixture(autouse=True)
def alone(own_folder, monkeypatch):
    for name in (SHARED, *RANKS, "SLURM_NTASKS"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def test_numbers_go_up_and_are_never_used_again(tmp_path):
    assert choose("a") == tmp_path / "runs/a/1"
    (tmp_path / "runs/a/7").mkdir()
    (tmp_path / "runs/a/notes").mkdir()
    assert choose("a") == tmp_path / "runs/a/8"


def test_a_training_that_is_refused_leaves_no_folder(tmp_path):
    with pytest.raises(BadRun), opened("a", None):
        raise BadRun
    assert not [*tmp_path.iterdir()]


def test_a_folder_given_must_be_new_or_empty_or_that_of_a_run(tmp_path):
    (tmp_path / "mine").mkdir()
    assert choose("a", "mine") == tmp_path / "mine"
    (tmp_path / "mine/x").touch()
    with pytest.raises(BadRun, match="not empty"):
        choose("a", "mine")
    with pytest.raises(BadRun):
        choose("a", "mine/x")
    write_config(tmp_path / "mine", {"seed": 1})
    assert choose("a", "mine") == tmp_path / "mine"


def test_further_processes_take_the_folder_of_the_first(monkeypatch):
    first = choose("a")
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert choose("a") == first
    monkeypatch.delenv(SHARED)
    with pytest.raises(BadRun, match="--run FOLDER"):
        choose("a")


@pytest.mark.parametrize("names", [("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS")])
def test_the_first_of_processes_that_a_launcher_started_takes_no_new_folder_either(
    monkeypatch, names
):
    monkeypatch.setenv(names[0], "0")
    for count, is_refused in (("2", True), ("1", False)):
        monkeypatch.setenv(names[1], count)
        with pytest.raises(BadRun, match="--run FOLDER") if is_refused else nullcontext():
            choose("a")
        assert Path("runs").exists() is not is_refused


def test_a_summary_keeps_the_sections_of_other_commands(tmp_path):
    write_summary(tmp_path, "fit", {"loss": float("nan"), "path": Path("x")})
    write_summary(tmp_path, "test", {"bleu": 1.5})
    write_summary(tmp_path, "test", {"bleu": 2.5})
    assert read_summary(tmp_path) == {"fit": {"loss": None, "path": "x"}, "test": {"bleu": 2.5}}
    json.loads((tmp_path / "summary.json").read_text("utf-8"))
    assert [path.name for path in tmp_path.iterdir()] == ["summary.json"]


def test_what_a_run_is_may_not_change_and_how_long_it_takes_may(tmp_path):
    trainer = {"max_steps": 5, "limit_train_batches": 4}
    recipe = {"model": {"norm": "rms", "dim": 8}, "data": {"workers": 0}, "trainer": trainer}
    write_config(tmp_path, recipe)
    trainer = {**trainer, "max_steps": 9, "logger": {"a": [1]}}
    check_config(tmp_path, {**recipe, "data": {"workers": 3}, "trainer": trainer}, {})
    with pytest.raises(BadRun, match=r"\.norm was rms, is not set; .*\.name was not set, is layer"):
        check_config(tmp_path, {**recipe, "model": {"norm": {"name": "layer"}, "dim": 8}}, {})
    layers = {**recipe["model"], "pattern": [{"window": 8}, {}]}
    folder = tmp_path / "alternating"
    folder.mkdir()
    write_config(folder, {"model": layers})
    with pytest.raises(BadRun, match=r"pattern was .*, \{\}\], is \[\{'window': 8\}\]"):
        check_config(folder, {"model": {**layers, "pattern": [{"window": 8}]}}, {})
    check_config(folder, {"model": layers}, {})
    with pytest.raises(BadRun, match=r"limit_train_batches was 4, is not set"):
        check_config(tmp_path, {**recipe, "trainer": {}}, {})


def test_a_stranger_s_configuration_that_is_billions_of_values_is_not_read(tmp_path):
    lines = ["a0: &a0 [x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    (tmp_path / "config.yaml").write_text("\n".join(lines), "utf-8")
    with pytest.raises(BadRun, match="cannot be read"):
        check_config(tmp_path, {}, {})
    shared = [1]
    write_config(tmp_path, {"a": shared, "b": shared})
    assert check_config(tmp_path, {"a": [1], "b": [1]}, {}) == []


def test_a_text_that_looks_like_a_number_is_read_as_the_text_that_was_written(tmp_path):
    recipe = {"data": {"train": "1e5", "root": "no"}, "optim": {"lr": 1e-5}}
    write_config(tmp_path, recipe)
    assert read_config(tmp_path) == recipe


def test_the_latest_runs_are_suggested_first():
    for age, name in enumerate(("b", "c", "a")):
        Path(f"runs/{name}/1").mkdir(parents=True)
        write_config(Path(f"runs/{name}/1"), {})
        os.utime(f"runs/{name}/1", (99 - age, 99 - age))
    assert similar_runs("elsewhere/x") == "runs/b/1, runs/c/1, runs/a/1"
    for name in "def":
        Path(f"runs/{name}/1").mkdir(parents=True)
        write_config(Path(f"runs/{name}/1"), {})
    assert similar_runs("runs/x").endswith(", ...")
    assert similar_runs("runs/b/9") == "runs/b/1"


def test_metrics_go_on_after_the_rows_that_a_checkpoint_knows(tmp_path):
    first = MetricsFile(tmp_path)
    for step in range(4):
        first.log_metrics({"a": 1.0, "b": float(step)}, step=step)
    again = MetricsFile(tmp_path)
    again.go_on(2)
    again.log_metrics({"b": 7.0}, step=3)
    rows = (tmp_path / "metrics.csv").read_text("utf-8").split()
    assert rows == ["step,a,b", "0,1.0,0.0", "1,1.0,1.0", "3,,7.0"]
    assert again.rows == 3


def read(folder, text):
    (folder / "metrics.csv").write_text(text, "utf-8")
    return logged_curves(folder)


def test_each_value_has_its_metric_and_step(tmp_path):
    rows = "step,epoch,train/loss,val/\u4f8b/loss\n0,0,2.5,\n1,0,,1.5\n1,0,2.25,\n"
    assert read(tmp_path, rows) == {"train/loss": {0: 2.5, 1: 2.25}, "val/\u4f8b/loss": {1: 1.5}}


@pytest.mark.parametrize("row", ["1,much", "x,2.0", ",2.0", "1,2.0"])
def test_values_are_read_up_to_a_damaged_or_unfinished_row(tmp_path, row):
    text = f"step,train/loss\n0,3.0\n{row}" + "\n" * (row != "1,2.0")
    assert read(tmp_path, text) == {"train/loss": {0: 3.0}}
