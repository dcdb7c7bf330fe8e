"""What a recipe scores does not depend on the speed of the machine: steps or epochs limit it."""

from pathlib import Path

import pytest
import yaml

FOLDER = Path(__file__).parents[2] / "recipes"
RECIPES = sorted(path for path in FOLDER.glob("*/*.yaml") if path.parent.name != "ablations")


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_steps_or_epochs_limit_a_recipe_and_time_does_not(path):
    trainer = yaml.safe_load(path.read_text("utf-8"))["trainer"]
    assert "max_time" not in trainer
    assert max(trainer.get("max_steps", -1), trainer.get("max_epochs", -1)) > 0
    assert isinstance(trainer.get("val_check_interval", 1), int), "not a time"
