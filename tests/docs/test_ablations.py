"""What the pages say of the packaged sweeps is what their runs, committed beside them, showed."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.ablations import (
    CLAIMS,
    DIFFERENCES,
    IDEAS,
    PAGE,
    SWEEPS,
    found,
    page,
    with_claims,
    with_differences,
)
from tfzoo.config.loader import read_yaml
from tfzoo.sweep.plan import parse
from tfzoo.sweep.runs import read_csv

FILES = sorted(SWEEPS.glob("*.yaml"))


def test_the_page_is_made_from_the_runs() -> None:
    assert PAGE.read_text("utf-8") == page()


def test_the_claims_are_made_from_the_runs() -> None:
    assert CLAIMS.read_text("utf-8") == with_claims(CLAIMS.read_text("utf-8"))


def test_the_tables_of_the_ideas_are_made_from_the_runs() -> None:
    for idea in sorted(IDEAS.glob("*.md")):
        text = idea.read_text("utf-8")
        assert bool(DIFFERENCES.search(text)) == (idea.stem != "index"), idea.name
        assert with_differences(text) == text, idea.name


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_cell_of_a_sweep_was_run_with_every_seed(file: Path) -> None:
    plan = parse(file, read_yaml(file))
    rows = read_csv(file.with_suffix(".csv"))
    run = [
        (*(row[axis] for axis in plan.axes), row["seed"])
        for row in rows
        if row["status"] == "completed"
    ]
    assert sorted(run) == sorted(
        (*cell.labels.values(), seed) for cell in plan.cells for seed in plan.seeds
    )
    assert {row["steps"] for row in rows} == {plan.budget.steps}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_head_of_a_sweep_says_what_was_measured(file: Path) -> None:
    assert found(file).startswith(
        ("as claimed", "partly as claimed", "not as claimed", "not distinguishable")
    )
    assert "confirmed" not in found(file), "which the repeat says"
