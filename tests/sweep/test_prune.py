"""Successive halving: which cells go on, what becomes of the others, and that judging them stays
honest.
"""

import json
import math
import re
from pathlib import Path

import pytest

from benchmarks.pruning import WORLDS, measure
from tests.sweep.files import Trainings, sweep_file
from tfzoo.commands.main import main
from tfzoo.errors import BadOption, BadRecipe
from tfzoo.sweep.plan.load import load
from tfzoo.sweep.plan.sweep_file import Metric, Prune
from tfzoo.sweep.report.results import gather
from tfzoo.sweep.run import prune, tune
from tfzoo.sweep.run.state import planned_runs
from tfzoo.sweep.start import start

FOLDER = Path("runs/tiny")
RATES = [1e-3, 2e-3, 3e-3, 4e-3, 5e-3]
TREE = {
    "axes": {"optim.lr": RATES},
    "budget": {"steps": 8},
    "overrides": {"trainer.max_steps": None},
    "prune": {"after": 0.25, "keep": 0.5},
}
LOSSES = {"lr=0.001": 9.0, "lr=0.002": 2.0, "lr=0.003": 3.0, "lr=0.004": 1.0, "lr=0.005": 4.0}
"""By the name of the cell; the baseline, which is the first, has the worst."""


@pytest.fixture(autouse=True)
def trainings(own_folder, monkeypatch):
    made = Trainings(monkeypatch)
    made.scores |= LOSSES
    return made


def written(**changes):
    file = sweep_file(Path(), **{**TREE, **changes})
    file.write_text(file.read_text().replace("  trainer.max_steps: null\n", ""))
    return file


def sweep(*args, **changes):
    return main(["sweep", str(written(**changes)), *args])


def pruned():
    found = {
        path.parent.name: json.loads(path.read_text()) for path in FOLDER.glob("*/pruned.json")
    }
    return {name: one["step"] for name, one in found.items()}


@pytest.mark.parametrize(
    ("prune", "rungs", "kept"),
    [
        (Prune(100, 0.5), [100, 200, 400, 800], [1, 2, 5]),
        (Prune(0.25, 0.5), [250, 500], [1, 2, 5]),
        (Prune(0.1, 1 / 3), [100, 300, 900], [1, 1, 3]),
        (Prune(100, 3), [100], [1, 3, 3]),
        (Prune(1000, 0.5), [], [1, 2, 5]),
    ],
)
def test_rungs_follow_from_the_share_that_is_kept(prune, rungs, kept):
    assert prune.rungs(1000) == rungs
    assert [prune.kept(cells) for cells in (1, 3, 9)] == kept


def test_the_best_cells_and_the_baseline_are_trained_to_the_end(trainings, capsys):
    assert sweep("--jobs", "2") == 0
    assert pruned() == {"lr=0.003": 2, "lr=0.005": 2, "lr=0.002": 4}
    said = capsys.readouterr()
    assert "4 of 10 runs completed, 0 failed, 6 pruned" in said.out
    assert (
        "lr=0.005 seed 1: pruned after 2 steps: val/loss 4, place 4 of 4, of which 2 went on"
    ) in said.err
    assert sorted(trainings.paused) == sorted(
        [(f"lr={rate} seed {seed}", 2) for rate in RATES for seed in (1, 2)]
        + [(f"lr={rate} seed {seed}", 4) for rate in (0.001, 0.002, 0.004) for seed in (1, 2)]
    )
    assert sweep() == 0
    assert len(trainings.trained) == 10 + 6 + 4, "nothing is left"
    assert sweep("--dry-run") == 0
    assert "; 0 runs left; 6 pruned" in capsys.readouterr().out


def test_what_was_pruned_is_listed_and_enters_no_test(trainings):
    sweep()
    results = gather([FOLDER])
    statuses = {cell.name: cell.status for cell in results.cells}
    assert [name for name, status in statuses.items() if status == "pruned"] == sorted(pruned())
    for cell in results.cells:
        (judged,) = cell.judged
        if cell.status == "pruned":
            assert judged is not None
            assert (judged.seeds, judged.mean, judged.p, judged.verdict) == (
                0,
                None,
                None,
                "not judged",
            )
            assert "pruned after" in judged.sentence
    report = (FOLDER / "report.md").read_text()
    assert "## Pruned cells" in report
    assert re.search(r"lr 0.003: pruned after 2 steps: val/loss 3, place 3 of 4", report)
    assert "Pruned: after 25% of the steps, and each 2 times as far: the best 50% of" in report
    page = (FOLDER / "report.html").read_text()
    assert page.count("place 3 of 4, of which 2 went on") >= 1
    assert "Pruned cells" in page


def test_a_sweep_that_was_stopped_before_a_rung_decides_later_and_alike(trainings, capsys):
    trainings.codes["lr=0.004/seed-2"] = 130
    trainings.codes["lr=0.003/seed-1"] = -9
    assert sweep() == 1
    assert "0 of 10 runs completed" in capsys.readouterr().out
    assert pruned() == {}
    assert not [word for word in trainings.paused if word[1] == 4]
    trainings.codes.clear()
    assert sweep("--retry", "failed") == 0
    assert pruned() == {"lr=0.003": 2, "lr=0.005": 2, "lr=0.002": 4}


def test_what_a_rung_decided_is_completed_and_not_decided_again(trainings, capsys):
    sweep()
    before = pruned()
    (FOLDER / "lr=0.003/pruned.json").unlink()  # as if killed before it was written
    rungs = FOLDER / "lr=0.004/seed-1/rungs.json"
    rungs.write_text(json.dumps({**json.loads(rungs.read_text()), "2": 50.0}))
    assert sweep() == 0
    assert pruned() == before
    assert "place 3 of 4" in capsys.readouterr().err


def test_a_cell_without_a_score_is_the_worst_and_a_failed_seed_is_left_out(trainings):
    trainings.codes["lr=0.004/"] = 1
    trainings.codes["lr=0.003/seed-1"] = 1
    assert sweep(prune={"after": 2, "keep": 2}) == 1
    assert pruned() == {"lr=0.004": 2, "lr=0.005": 2}


def test_nothing_is_pruned_by_a_score_that_no_run_has(trainings, capsys, monkeypatch):
    monkeypatch.setattr(prune, "score", lambda *given: None)
    assert sweep() == 0
    assert pruned() == {}
    assert "nothing is pruned after 2 steps: no run has a val/loss by then" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("metric", "used"),
    [
        (Metric("val/chrf", "max"), Metric("val/chrf", "max")),
        (Metric("test/long/exact_match", "max"), Metric("val/exact_match", "max")),
    ],
)
def test_cells_are_compared_by_a_score_of_validation(tmp_path, metric, used):
    plan = load(written(metric=vars(metric)))
    assert tune.metric(planned_runs(plan, tmp_path)[0], plan) == used


def test_once_cells_are_pruned_the_others_they_were_compared_with_are_fixed(trainings, capsys):
    sweep()
    for changes in (
        {"seeds": [1, 2, 3]},
        {"axes": {"optim.lr": [*RATES, 6e-3]}},
        {"prune": {"after": 0.5, "keep": 0.5}},
    ):
        assert sweep(**changes) == 2
        assert "remove prune to train all cells to the end" in capsys.readouterr().err
    assert sweep(prune=None) == 0
    assert "10 of 10 runs completed" in capsys.readouterr().out
    assert pruned() == {}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"prune": {"after": 2}}, "prune.keep is a number of cells, or a share of them"),
        ({"prune": {"after": 1.5, "keep": 2}}, "prune.after is a number of steps, or a share"),
        ({"prune": {"after": 2, "kept": 2}}, "has no key 'kept'. Did you mean 'keep'?"),
        ({"prune": {"after": 8, "keep": 2}}, "prune.after 8 is not before the last step"),
        ({"prune": {"after": 1, "keep": 2}}, "write overrides: {trainer.val_check_interval: 1}"),
        ({"budget": {"tokens": 900}}, "prune counts steps: set budget.steps"),
        ({"budget": None}, "prune needs runs of equal length: set budget.steps"),
    ],
)
def test_a_slip_is_refused_before_anything_runs(changes, said):
    if changes.get("budget", 1) is None:
        changes = {**changes, "overrides": {"trainer.max_steps": -1, "trainer.max_epochs": 1}}
    with pytest.raises(BadRecipe) as caught:
        load(written(**changes))
    assert said in str(caught.value)


def test_only_this_machine_compares_runs_on_their_way(tmp_path):
    plan = load(written())
    with pytest.raises(BadOption, match="leave out --engine"):
        start(plan, tmp_path / "x", [], engine="ray")
    assert sweep("--cell", "0") == 2


@pytest.mark.parametrize(
    ("sweeps", "worlds"),
    [
        (250, ["16 cells, 10 seeds, the best one kept at half", "3 x 3 cells, 7 kept at half"]),
        pytest.param(3000, list(WORLDS), marks=pytest.mark.nightly),
    ],
)
def test_where_nothing_matters_false_verdicts_come_at_the_stated_rate(sweeps, worlds):
    for name in worlds:
        rate, coverage = measure(WORLDS[name], sweeps)
        assert coverage >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / sweeps), name
        assert rate <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / sweeps), name
