"""Packaged sweeps are valid and vary what their claims are about and nothing else."""

import re
from functools import cache

import pytest
import torch

from tests.daily import sampled
from tfzoo.base.registry import registry
from tfzoo.commands.main import main
from tfzoo.config.recipe import find_recipe, packaged_sweeps
from tfzoo.sweep.plan.load import load

NAMES = packaged_sweeps()
TRAINED = "ablations/swapped"
"""It begins with trained runs, and has tests of its own (test_swapped.py)."""
SHORT = [name.partition("/")[2] for name in NAMES if name != TRAINED]


@cache
def plan(name):
    return load(f"ablations/{name}")


def model(recipe):
    task = registry("task").entry(recipe["task"]).cls
    with torch.device("meta"):
        return task.Model(**task.model_arguments(data=recipe["data"]), **recipe["model"])


def sizes(name):
    """Parameters by cell, but for the embeddings, whose number the text decides."""
    found = {}
    for cell in plan(name).cells:
        named = model(cell.recipes[""]).named_parameters()
        counted = sum(p.numel() for key, p in named if "embedding" not in key)
        found[cell.name.partition("=")[2]] = counted
    return found


@pytest.mark.parametrize("name", sampled(SHORT, SHORT[::3]))
def test_a_sweep_is_valid_and_says_what_it_is_about(name):
    made = plan(name)
    assert not [cell.refused for cell in made.cells if cell.refused]
    assert len(made.seeds) >= 5
    assert made.threads == 1
    assert made.claim
    assert made.metric.name.startswith("test/")
    steps = made.budget.steps
    for recipe in (recipe for cell in made.cells for recipe in cell.recipes.values()):
        assert recipe["explain"]
        trainer = recipe["trainer"]
        assert trainer["val_check_interval"] == trainer["max_steps"] == steps, "validated once"
        assert not trainer.get("max_time"), "the budget is in steps"
        assert (steps or 0) % trainer["log_every_n_steps"] == 0
    header = find_recipe(f"ablations/{name}").read_text("utf-8").partition("\n\nrecipe:")[0]
    assert all(line.startswith("#") for line in header.splitlines())
    assert f"tfzoo sweep ablations/{name} --jobs 2" in header
    assert "\n# Measured" in header
    runs = re.search(r"\n# (\d+) runs, \d+ minutes on 2 cores", header)
    assert runs is not None
    assert int(runs[1]) == len(made.cells) * len(made.seeds)


def test_scale_starts_queries_and_keys_with_variance_one_at_every_width():
    cells = {tuple(cell.labels.values()): cell.recipes[""] for cell in plan("scale").cells}
    assert {width for _, width in cells} == {"4", "16", "64", "256"}
    assert {name for name, _ in cells} == {"scaled_dot_product", "dot_product", "additive"}
    for (_, width), recipe in cells.items():
        made = model(recipe)
        inner = made.encoder.layers[0].self_attention.inner
        assert inner.query.out_features == int(width)
        assert inner.value.out_features == recipe["model"]["dim"], "values keep their width"
        assert recipe["model"]["init_std"] ** 2 * inner.query.in_features == 1


def test_heads_of_equal_parameters_and_heads_of_full_width():
    found = sizes("heads")
    assert found["1_of_64"] == found["4_of_16"] == found["16_of_4"] < found["4_of_64"]


def test_feedforward_layers_have_equal_parameters_within_one_percent():
    found = sizes("feedforward")
    rest = found.pop("none")
    assert max(found.values()) - rest < 1.01 * (min(found.values()) - rest)


def test_sweeps_are_listed_apart_and_no_recipes(capsys):
    assert main(["recipes"]) == 0
    recipes = capsys.readouterr().out
    assert "translation/numbers " in recipes
    assert "ablations/" not in recipes
    assert recipes.splitlines()[-1].endswith(": tfzoo recipes ablations")
    assert main(["recipes", "ablations"]) == 0
    _, _, sweeps = capsys.readouterr().out.partition("tfzoo sweep ...")
    assert [line.split()[0] for line in sweeps.splitlines() if line] == NAMES
    assert main(["fit", "ablations/norm"]) == 2
    said = capsys.readouterr().err
    assert "tfzoo sweep ablations/norm" in said
    assert said.count("\n") == 1
