"""Sweeps over a trained model: the runs they begin with."""

import shutil

import pytest

from tfzoo.commands.main import main
from tfzoo.config.recipe import find_recipe
from tfzoo.sweep.plan.load import load


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
