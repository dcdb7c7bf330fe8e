"""What a run has logged is read as it stands: empty cells are no values."""

import pytest

from tfzoo.runs.folder import logged_values


def read(folder, text):
    (folder / "metrics.csv").write_text(text, "utf-8")
    return list(logged_values(folder))


def test_each_value_has_its_metric_and_step(tmp_path):
    rows = "step,epoch,train/loss,val/\u4f8b/loss\n0,0,2.5,\n1,0,,1.5\n1,0,2.25,\n"
    assert read(tmp_path, rows) == [
        ("train/loss", 0, 2.5), ("val/\u4f8b/loss", 1, 1.5), ("train/loss", 1, 2.25)
    ]  # fmt: skip


@pytest.mark.parametrize("row", ["1,much", "x,2.0", ",2.0"])
def test_a_damaged_row_is_an_error(tmp_path, row):
    with pytest.raises(ValueError, match=r"convert|invalid"):
        read(tmp_path, f"step,train/loss\n{row}\n")
