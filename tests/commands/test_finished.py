"""What a run that has ended keeps and says."""

from pathlib import Path

import pytest

from tests.results import rows, summary
from tfzoo.commands.main import main

pytestmark = pytest.mark.usefixtures("no_pictures", "own_folder")
SMALL = (
    *("fit", "translation/numbers", "--run", "run", "--model.dim", "16", "--model.heads", "2"),
    *("--model.layers", "1", "--trainer.accelerator", "cpu", "--trainer.devices", "1"),
    *("--data.dataset.train", "200", "--data.dataset.val", "4", "--data.dataset.test", "4"),
    *("--data.dataset.long", "4", "--data.workers", "0", "--search.max_length", "0.2"),
)


def test_a_finished_run_says_so_and_trains_on_where_it_is_to_last_longer(capsys):
    def files():
        return {path: path.stat().st_mtime_ns for path in Path("run").rglob("*") if path.is_file()}

    args = [*SMALL, "--trainer.max_steps", "2"]
    assert main(args) == 0
    before = files()
    capsys.readouterr()
    assert main(args) == 0
    assert "run is complete: 2 steps" in capsys.readouterr().out
    assert main([*args, "--trainer.max_steps", "1"]) == 0
    assert "run is complete: 2 steps" in capsys.readouterr().out
    assert files() == before, "nothing is tested or written again"
    assert main([*args, "--trainer.max_steps", "3"]) == 0
    assert "--trainer.max_steps 3\n" in capsys.readouterr().out
    steps = summary("run")["fit"]["steps"]
    assert max(int(row["step"]) for row in rows("run")) == steps == 3, "counted from 1"


def test_a_limit_of_time_that_cuts_training_is_named(capsys):
    limits = ("--trainer.max_time", "00:00:00:01", "--trainer.max_steps", "100000")
    assert main([*SMALL, *limits]) == 0
    assert "trainer.max_time" in capsys.readouterr().out


def test_test_sets_of_ones_own_are_scored_as_those_of_a_recipe(capsys):
    Path("text.tsv").write_text("".join(f"{row} a\t{row} b\n" for row in range(40)), "utf-8")
    splits = [word for name in ("train", "val", "test") for word in (f"--data.{name}", "text.tsv")]
    own = [*SMALL[:12], "--data.dataset", "null", *splits, "--trainer.max_steps", "2"]
    assert main(own) == 0
    assert summary("run")["test"]["scores"]["test/items"] == 40
    assert main(own) == 0
    assert "run is complete: 2 steps" in capsys.readouterr().out
