"""Options of layers from recipes, command lines and sweeps."""

from pathlib import Path

import pytest
import yaml

import tfzoo
from tests.commands.test_fit import TINY
from tests.results import summary
from tfzoo.commands.main import main

pytestmark = pytest.mark.usefixtures("no_pictures", "own_folder")

FEW = (*TINY, "--trainer.limit_val_batches", "1", "--run", "run")
ATTENTION = {
    **{"bias": False, "cap": 30.0, "gate": True, "head_scale": True},
    "query_key_norm": {"norm": "rms", "over": "head"},
    "pattern": [{"window": 4}, {}],
    "residual": {"name": "deepnorm", "beta": 0.5},
}


def typed(options):
    """As they are typed on a command line."""
    found = []
    for key, value in options.items():
        found += [f"--model.{key}", yaml.safe_dump(value, default_flow_style=True).split("\n")[0]]
    return found


def test_a_recipe_with_options_of_layers_trains_goes_on_and_loads():
    """Those of a command line, and the same in a file."""
    few = (*FEW, "--model.layers", "2")
    fit = ["fit", "translation/numbers", *few, *typed(ATTENTION)]
    assert main([*fit, "--trainer.max_steps", "2"]) == 0
    config = yaml.safe_load(Path("run/config.yaml").read_text("utf-8"))
    assert {key: config["model"][key] for key in ATTENTION} == ATTENTION
    Path("mine.yaml").write_text(
        yaml.safe_dump({"base": "translation/numbers", "model": ATTENTION})
    )
    assert main(["fit", "mine.yaml", *few, "--trainer.max_steps", "3"]) == 0
    assert summary("run")["fit"]["steps"] == 3
    model = tfzoo.TranslationTask.load("run").model
    assert {key: model.config[key] for key in ATTENTION} == ATTENTION


def test_the_norm_of_queries_and_keys_is_not_that_of_the_layers(capsys):
    """Also in the options of one side."""
    args = ["--model.norm", "rms", "--model.norm.eps", "0.1"]
    for key in ("model", "model.encoder"):
        args += [f"--{key}.query_key_norm", "{norm: rms}"]
    assert main(["fit", "translation/numbers", *args, "--print_config"]) == 0
    model = yaml.safe_load(capsys.readouterr().out)["model"]
    assert model["query_key_norm"] == model["encoder"]["query_key_norm"] == {"norm": "rms"}
