"""What a recipe scores does not depend on the speed of the machine: steps or epochs limit it."""

import re
from pathlib import Path

import pytest
import yaml

from tfzoo.config.recipe import header_of

FOLDER = Path(__file__).parents[2] / "recipes"
RECIPES = sorted(path for path in FOLDER.glob("*/*.yaml") if path.parent.name != "ablations")


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_steps_or_epochs_limit_a_recipe_and_time_does_not(path):
    trainer = yaml.safe_load(path.read_text("utf-8"))["trainer"]
    assert "max_time" not in trainer
    assert max(trainer.get("max_steps", -1), trainer.get("max_epochs", -1)) > 0
    assert isinstance(trainer.get("val_check_interval", 1), int), "not a time"


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_header_has_the_command_and_measured_scores_have_their_steps(path):
    header = path.read_text("utf-8").partition("\ntask:")[0]
    name = f"{path.parent.name}/{path.stem}"
    assert re.search(rf"^#   tfzoo fit {name}\b", header, re.MULTILINE)
    assert header_of(name).endswith(".")
    assert all(line.startswith("#") for line in header.strip().splitlines())
    assert all(len(line) <= 100 for line in header.splitlines())
    if "Measured" in header:
        steps = yaml.safe_load(path.read_text("utf-8"))["trainer"]["max_steps"]
        assert f"{steps:,} steps" in header.replace("\n# ", " ")
