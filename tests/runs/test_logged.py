"""What a run has logged is read as it stands: empty cells are no values."""

import pytest

from tfzoo.runs.folder import logged_curves


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
