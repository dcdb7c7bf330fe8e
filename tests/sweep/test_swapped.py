"""Sweeps over a trained model: the runs they begin with, and what their report says of swaps."""

import shutil

import pytest
import yaml

from tests.sweep.made import make
from tfzoo.commands.main import main
from tfzoo.config.recipe import find_recipe
from tfzoo.sweep.plan.load import load
from tfzoo.sweep.report import figures
from tfzoo.sweep.report.files import markdown, page
from tfzoo.sweep.report.results import gather
from tfzoo.sweep.report.sections import sections, swapped

SEEDS = (1, 2, 3)
TITLE = "What a swap costs at once"


def folder(place, curves, **metric):
    """A sweep over norms, with the curve of each; seed 3 has one that is 10 above."""
    made = make(place / "norms", SEEDS, tuple(curves), ("sinusoidal",))
    file = yaml.safe_load((made / "sweep.yaml").read_text("utf-8"))
    file["metric"] |= metric
    (made / "sweep.yaml").write_text(yaml.safe_dump(file, sort_keys=False), "utf-8")
    for norm, curve in curves.items():
        for seed in SEEDS:
            rows = [f"{step},{loss + 10 * (seed == 3)}" for step, loss in curve.items()]
            text = "\n".join(["step,val/loss", *rows, ""])
            (made / f"norm={norm},position=sinusoidal/seed-{seed}/metrics.csv").write_text(text)
    return made


def costs(made):
    """The caption and the rows of the table."""
    results = gather(made)
    found = swapped(results, *figures.validated(results))
    return found.lines[0][1], [[one.text for one in row] for row in found.table.rows]


CURVES = {"layer": {0: 2.0, 10: 1.9, 20: 1.9}, "rms": {0: 4.0, 10: 2.1, 20: 2.0}}


def test_a_swap_is_made_good_when_it_is_as_good_as_its_own_seed_was(tmp_path):
    caption, lines = costs(folder(tmp_path, CURVES))
    assert "worse" not in caption
    assert lines == [
        ["layer, sinusoidal", "5.333", "0, 0, 0"],
        ["norm rms", "7.333", "20, 20, 20"],
    ]


def test_what_is_never_made_good_is_not(tmp_path):
    worse = {**CURVES, "rms": {0: 4.0, 10: 3.0}}
    assert costs(folder(tmp_path, worse))[1][1][2] == "not, not, not"


def test_reports_have_the_table_where_training_began_with_trained_weights(tmp_path):
    trained = gather(folder(tmp_path / "trained", CURVES))
    anew = {norm: {10: 2.0, 20: 1.5} for norm in CURVES}
    new = gather(folder(tmp_path / "new", anew))
    for text in (markdown, page):
        said = text(trained, sections(trained))
        assert TITLE in said
        assert "20, 20, 20" in said
        assert TITLE not in text(new, sections(new))


@pytest.mark.nightly
@pytest.mark.usefixtures("no_pictures")
def test_the_packaged_sweep_begins_with_what_its_head_trains(own_folder):
    small = [f"--data.dataset.{split}=40" for split in ("train", "val", "test")]
    command = ["fit", "language_modeling/agreement", "--seed", "1", "--run", "runs/agreement/1"]
    assert main([*command, *small, "--trainer.max_steps=1", "--trainer.accelerator=cpu"]) == 0
    for seed in (2, 3, 4, 5):
        shutil.copytree("runs/agreement/1", f"runs/agreement/{seed}")
    plan = load("ablations/swapped")
    assert not [cell.refused for cell in plan.cells if cell.refused]
    assert plan.baseline == {"swap": "nothing"}
    head = find_recipe("ablations/swapped").read_text("utf-8").partition("\n\nrecipe:")[0]
    assert "tfzoo fit language_modeling/agreement --seed $seed --run runs/agreement/$seed" in head
    assert "tfzoo sweep ablations/swapped --jobs 2" in head
    assert f"\n# {len(plan.cells) * len(plan.seeds)} runs, " in head
    shutil.rmtree("runs/agreement/1")
    assert load("ablations/swapped", seeds=[2, 3]).seeds == [2, 3], "none begins with 1"
