"""A new folder for each run, one for all its processes; a summary that grows by sections."""

from __future__ import annotations

import json
import resource
from pathlib import Path

import pytest

from tfzoo.errors import BadRun
from tfzoo.runs.folder import SHARED, choose
from tfzoo.runs.metrics import MetricsFile
from tfzoo.runs.summary import read, write


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (SHARED, "RANK", "LOCAL_RANK"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def test_numbers_go_up_and_are_never_used_again(tmp_path: Path) -> None:
    assert choose("a") == tmp_path / "runs/a/1"
    (tmp_path / "runs/a/7").mkdir()
    (tmp_path / "runs/a/notes").mkdir()
    assert choose("a") == tmp_path / "runs/a/8"


def test_a_folder_given_must_be_new_or_empty(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    assert choose("a", "mine") == tmp_path / "mine"
    (tmp_path / "mine/x").touch()
    with pytest.raises(BadRun, match="not empty"):
        choose("a", "mine")
    with pytest.raises(BadRun):
        choose("a", "mine/x")


def test_further_processes_take_the_folder_of_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = choose("a")
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert choose("a") == first
    monkeypatch.delenv(SHARED)
    with pytest.raises(BadRun, match="--run FOLDER"):
        choose("a")


def test_a_summary_keeps_the_sections_of_other_commands(tmp_path: Path) -> None:
    write(tmp_path, "fit", {"loss": float("nan"), "path": Path("x")})
    write(tmp_path, "test", {"bleu": 1.5})
    write(tmp_path, "test", {"bleu": 2.5})
    assert read(tmp_path) == {"fit": {"loss": None, "path": "x"}, "test": {"bleu": 2.5}}
    json.loads((tmp_path / "summary.json").read_text("utf-8"))
    assert [path.name for path in tmp_path.iterdir()] == ["summary.json"]


def test_metrics_that_come_later_are_new_columns(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path)
    file.log_metrics({"a": 1.0}, step=1)
    file.log_metrics({"b": 2.0}, step=2)
    file.log_metrics({"a": 1e-9, "b": 3.0}, step=3)
    assert (tmp_path / "metrics.csv").read_text("utf-8").split() == ["step,a,b", "1,1.0,", "2,,2.0", "3,1e-09,3.0"]


def test_rows_that_a_full_disk_does_not_take_are_written_when_it_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = MetricsFile(tmp_path)
    file.log_metrics({"a": 1.0}, step=1)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file.path.stat().st_size + 4, limit[1]))
    try:
        file.log_metrics({"a": 0.25}, step=2)
        file.log_metrics({"b": 3.0}, step=3)
        assert file.path.read_text("utf-8").split() == ["step,a", "1,1.0"], "no half row"
        assert [path.name for path in tmp_path.iterdir()] == ["metrics.csv"]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    file.log_metrics({"b": 4.0}, step=4)
    assert file.path.read_text("utf-8").split() == ["step,a,b", "1,1.0,", "2,0.25,", "3,,3.0", "4,,4.0"]
    assert capsys.readouterr().err.count("Training goes on, the next row tries again") == 1
