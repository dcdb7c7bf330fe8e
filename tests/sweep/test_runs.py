"""runs.csv: one row per run of a sweep, whatever became of it."""

import csv

import pytest

from tests.sweep.made import LEAKY, make
from tfzoo.errors import BadRun
from tfzoo.sweep.run.runs_csv import FILE, SweepFolder, table, write_csv

FIXED = (
    "parameters train_tokens steps tokens_per_second train_seconds "
    "peak_memory checkpoint_path run_folder hostname"
)


@pytest.fixture
def folder(tmp_path):
    return make(tmp_path / "norms")


def test_each_run_has_a_row_in_the_order_of_the_plan(folder):
    rows = table(folder)
    assert len(rows) == 11 * 5 + 1
    assert list(rows[0]) == [
        *("cell", "model.norm", "model.position", "seed", "tuned", "status", "reason"),
        *("test/long/exact_match", "test/loss", "val/exact_match", "val/items", "val/loss"),
        *FIXED.split(),
    ]
    assert [row["seed"] for row in rows[:5]] == [1, 2, 3, 4, 5]
    cells = [cell.name for cell in SweepFolder.open(folder).plan.cells]
    assert list(dict.fromkeys(row["cell"] for row in rows)) == cells
    run, first = "norm=layer,position=sinusoidal/seed-1", rows[0].items()
    assert first >= {"model.norm": "layer", "model.position": "sinusoidal"}.items()
    assert first >= {"status": "completed", "reason": None, "train_tokens": 301_000}.items()
    assert first >= {"peak_memory": 520_646_657, "hostname": "maple", "run_folder": run}.items()
    # where it lies now, not where it lay
    assert first >= {"checkpoint_path": f"{run}/checkpoints/best.ckpt"}.items()


def test_what_did_not_complete_has_its_row_and_no_scores(folder):
    by_status = {
        status: [row for row in table(folder) if row["status"] == status]
        for status in ("refused", "diverged", "missing")
    }
    assert [(row["seed"], row["reason"]) for row in by_status["refused"]] == [(None, LEAKY)]
    (failed,), (half,) = by_status["diverged"], by_status["missing"]
    assert failed["reason"].startswith("training stopped: loss")
    assert half["val/loss"] is None, "what an unfinished run scored is no result"
    assert (failed["steps"], half["steps"]) == (40, 150)


def test_the_file_keeps_all_digits_and_is_written_whole(folder):
    rows = table(folder)
    write_csv(rows, folder / FILE)
    with (folder / FILE).open(newline="", encoding="utf-8") as stream:
        kept = list(csv.DictReader(stream))
    assert [row["cell"] for row in kept] == [row["cell"] for row in rows]
    assert [row["val/loss"] or "None" for row in kept] == [str(row["val/loss"]) for row in rows]
    assert [path.name for path in folder.glob("*.csv")] == [FILE]
    assert not list(folder.glob("*.tmp"))


def test_a_folder_that_is_no_sweeps_is_refused_with_what_to_do(folder):
    with pytest.raises(BadRun, match=r"/gone is not the folder of a sweep.* FILE creates one"):
        table(folder.parent / "gone")
    with pytest.raises(BadRun, match=rf"it has no cells\.json\. Did you mean {folder}\?"):
        table(folder.parent)
    with pytest.raises(BadRun, match=rf"Did you mean {folder}\?"):
        table(folder / "norm=rms,position=rotary/seed-1")
    (folder / "cells.json").write_text('{"cells": [', "utf-8")
    with pytest.raises(BadRun, match="is damaged"):
        table(folder)
