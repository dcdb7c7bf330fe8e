"""What the pages say of the packaged sweeps is what their runs, committed beside them, showed."""

import re

import pytest

from benchmarks import ablations
from benchmarks.ablations import DIFFERENCES, IDEAS, PAGE, SWEEPS, runs_of, with_differences
from tfzoo.base.yaml_files import read_yaml
from tfzoo.sweep.plan.sweep_file import parse
from tfzoo.sweep.run.runs_csv import write_csv

FILES = sorted(SWEEPS.glob("*.yaml"))


@pytest.mark.nightly
def test_the_site_has_a_section_for_each_sweep():
    assert re.findall(r"^## (.*)$", ablations.sections(), re.MULTILINE) == [
        file.stem for file in FILES
    ]


def test_the_tables_of_the_pages_are_made_from_the_runs():
    for page in (PAGE, *sorted(IDEAS.glob("*.md"))):
        text = page.read_text("utf-8")
        assert bool(DIFFERENCES.search(text)) == (page.stem != "index"), page.name
        assert with_differences(text) == text, page.name


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_cell_of_a_sweep_was_run_with_every_seed(file):
    plan = parse(file, read_yaml(file))
    rows = runs_of(file.with_suffix(".csv"))
    done = [row for row in rows if row["status"] == "completed"]
    run = [(*(row[axis] for axis in plan.axes), int(row["seed"])) for row in done]
    planned = [(*cell.labels.values(), seed) for cell in plan.cells for seed in plan.seeds]
    assert sorted(run) == sorted(planned)
    assert {int(row["steps"]) for row in rows} == {plan.budget.steps}


@pytest.fixture
def repeated(tmp_path, monkeypatch):
    """Heads with a repeat that turns 16 of 4 round."""
    file = tmp_path / "heads.yaml"
    rows = runs_of(SWEEPS / "heads.csv")
    rows = [{**row, "seed": int(row["seed"]), "test/loss": float(row["test/loss"])} for row in rows]
    mean = {row["seed"]: row["test/loss"] for row in rows if row["heads"] == "4 of 16"}
    again = [{**row, "seed": row["seed"] + 5} for row in rows]
    for row in again:
        if row["heads"] == "16 of 4":
            row["test/loss"] = 2 * mean[row["seed"] - 5] - row["test/loss"]
    for name, table in (("heads", rows), ("heads.again", again)):
        write_csv(table, tmp_path / f"{name}.csv")
    file.write_text((SWEEPS / "heads.yaml").read_text("utf-8"), "utf-8")
    monkeypatch.setattr(ablations, "SWEEPS", tmp_path)
    return file


def test_a_repeat_beside_a_sweep_says_what_held(repeated):
    text = "\n".join(ablations.section(repeated))
    assert (
        "**Again.** test/loss: of 2 verdicts 1 held, 1 turned round; "
        "test/exact_match: of 2 verdicts 2 held"
    ) in text
    assert "| test/loss: difference | first | again | p | |" in text


def test_a_folder_is_named_like_its_sweep_and_what_it_repeats():
    assert [
        ablations.csv_name(folder)
        for folder in ("norm", "again_norm", "again_embedding_scale", "scale_again", "norm_longer")
    ] == [
        "norm.csv",
        "norm.again.csv",
        "embedding_scale.again.csv",
        "scale.again.csv",
        "norm.longer.csv",
    ]
    with pytest.raises(SystemExit, match="is not named like a packaged sweep"):
        ablations.csv_name("norms")
