"""The command, and ``like`` in a recipe."""

import json

import tfzoo
from tfzoo.commands.main import main
from tfzoo.config.config import Config
from tfzoo.config.recipe import parse_options, read
from tfzoo.models import architectures


def test_the_command_lists_architectures_with_model_and_paper(capsys):
    assert main(["architectures"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == architectures.names()
    assert all(architectures.architecture(line.split()[0]).model in line for line in lines)


def resolved(folder, model, *words):
    """The section ``model`` of a recipe on built-in data."""
    path = folder / "mine.yaml"
    path.write_text(f"base: translation/numbers\nmodel: {model}\n", "utf-8")
    found = Config.parse(read(str(path), parse_options(words)), make_data=False)
    section = found.recipe["model"]
    return section


def test_like_in_a_recipe_sets_the_parts_and_every_key_can_be_changed_on_top(tmp_path):
    """It replaces what the base says of parts, and keeps its sizes."""
    found = resolved(tmp_path, "{like: t5, norm: {eps: 1.0e-5}, dropout: 0.0}")
    assert found["norm"] == {"name": "rms", "eps": 1e-5}
    assert found["attention"] == "dot_product"
    assert found["feedforward"] == {"name": "relu", "bias": False}
    assert (found["dim"], found["dropout"]) == (128, 0.0)


def test_a_recipe_is_written_without_like(tmp_path):
    found = resolved(tmp_path, "{like: t5}")
    assert "like" not in found
    assert resolved(tmp_path, json.dumps({**found, "like": None})) == found
    assert "like" not in tfzoo.LanguageModel(8, 8, 2, 1, like="llama").config


def test_like_on_the_command_line_comes_before_its_options(tmp_path):
    words = ("--model.norm.eps", "1e-4", "--model.like", "llama")
    found = resolved(tmp_path, "{norm: batch}", *words)
    assert found["norm"] == {"name": "rms", "eps": 1e-4}
    assert found["position"] == {"name": "rotary", "layout": "half"}
