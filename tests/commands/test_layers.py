"""What the recipe, further files and options lay over each other, and what comes out."""

import inspect

import pytest
import yaml

from tests.typed import typed
from tfzoo import Transformer
from tfzoo.commands.main import main
from tfzoo.config.recipe import find_recipe


@pytest.fixture
def resolved(capsys):
    """The configuration that a command line comes to: a recipe and its options."""

    def run(line):
        assert main(typed(f"fit {line} --print_config")) == 0, capsys.readouterr().err
        tree = yaml.safe_load(capsys.readouterr().out)
        assert isinstance(tree, dict)
        return tree

    return run


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(
        "task: translation\nmodel: {norm: {name: layer, eps: 1e-3}}\ndata: {dataset: numbers}\n",
        "utf-8",
    )
    return str(path)


@pytest.mark.parametrize(
    ("options", "norm"),
    [
        ("", {"name": "layer", "eps": 1e-3}),
        ("--model.norm rms", "rms"),  # a new name drops the old one's options
        ("--model.norm rms --model.norm.eps 1e-6", {"name": "rms", "eps": 1e-6}),
        ("--model.norm.eps 1e-6", {"name": "layer", "eps": 1e-6}),  # an option keeps the name
        ("--model.norm '{name: rms, eps: 1e-6}'", {"name": "rms", "eps": 1e-6}),
        ("--model.norm.eps 1e-6 --model.norm rms", {"name": "rms", "eps": 1e-6}),
        ("--model.norm='{name: rms, eps: 1e-6}' --model.norm=none", "none"),
    ],
)
def test_a_dotted_option_keeps_the_name_and_a_new_name_drops_the_options(
    options, norm, recipe, resolved
):
    assert resolved(f"{recipe} {options}")["model"]["norm"] == norm


RMS = {"norm": {"name": "rms", "eps": 1e-3}}


@pytest.mark.parametrize(
    ("options", "key", "value"),
    [
        ("--model.norm.eps 1e-3", "model.norm", {"name": "layer", "eps": 1e-3}),  # the default's
        (
            "--model.encoder.norm.eps 1e-3 --model.norm rms --model.encoder.layers 1",
            "model.encoder",  # alone, whatever the order
            {**RMS, "layers": 1},
        ),
        ("--model.encoder.layers 1", "model.decoder", None),
        ("--model.decoder.norm.eps 1e-3 --model.decoder.norm rms", "model.decoder", RMS),
        *(
            (f"--checkpoint.filename '{text}'", "checkpoint.filename", text)
            for text in ("{step}", "{epoch}-{step}", "[best]", "null-model", "2024")
        ),
        *((f"--data.source {text}", "data.source", None) for text in ("null", "None")),
        *((f"--model.init_std {text}", "model.init_std", None) for text in ("null", "None")),
        ("--data.dataset null --data.source '{en}' --data.name a/b", "data.source", "{en}"),
        ("--data.dataset null --data.train 'a[:5]' --data.name a/b", "data.train", "a[:5]"),
    ],
)
def test_an_option_sets_its_key_alone_and_a_text_stays_one(options, key, value, resolved):
    section, _, name = key.partition(".")
    assert resolved(f"translation/numbers {options}")[section][name] == value


def test_a_config_file_lies_over_the_recipe_and_under_the_options(recipe, resolved, tmp_path):
    (tmp_path / "more.yaml").write_text("model: {norm: {eps: 1e-2}, dim: 64}\n", "utf-8")
    model = resolved(f"{recipe} --config {tmp_path}/more.yaml --model.dim 32")["model"]
    assert (model["norm"], model["dim"]) == ({"name": "layer", "eps": 1e-2}, 32)


def test_what_print_config_prints_runs_unchanged(resolved, tmp_path):
    first = resolved(
        "translation/numbers --model.norm rms --model.norm.eps 1e-6 --trainer.logger WandbLogger "
        "--trainer.callbacks+=EarlyStopping --trainer.callbacks.monitor=val/chrf "
        "--trainer.callbacks.mode=max "
        "--checkpoint.train_time_interval 00:00:10:00 --trainer.max_time 00:01:00:00"
    )
    (tmp_path / "again.yaml").write_text(yaml.safe_dump(first), "utf-8")
    assert resolved(str(tmp_path / "again.yaml")) == first
    assert first["trainer"]["callbacks"][0]["class_path"].endswith("EarlyStopping")


def test_yaml_words_that_python_mistakes_are_what_they_look_like(resolved, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(
        "task: translation\ndata: {root: 2024, source: no, joint: no}\noptim: {lr: 1e-3, "
        "eps: 1e-9}\nmodel: {tie: target}\n",
        "utf-8",
    )
    tree = resolved(str(path))
    assert tree["data"]["source"] == "no"
    assert tree["data"]["joint"] is False
    assert tree["data"]["root"].endswith("2024")
    assert tree["optim"]["lr"] == 1e-3


def test_paths_of_data_become_absolute(resolved, own_folder):
    given = "--data.train a.tsv --data.val b.tsv --data.test.one c.tsv"
    data = resolved(f"translation/zh_en {given}")["data"]
    assert data["train"] == str(own_folder / "a.tsv")
    assert data["test"] == {"one": str(own_folder / "c.tsv")}
    data = resolved("translation/multi30k --data.root text")["data"]
    assert data["root"] == str(own_folder / "text")


def test_a_path_that_is_typed_is_relative_to_the_working_directory(resolved, tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    given = "--data.root ../text --data.test.mine mine.tsv"
    data = resolved(f"translation/multi30k {given}")["data"]
    assert data["root"] == str(tmp_path / "text")
    assert data["test"] == {"mine": str(tmp_path / "elsewhere" / "mine.tsv")}


def test_a_path_in_a_file_is_relative_to_the_root_that_the_file_gives(resolved, tmp_path):
    (tmp_path / "mine.yaml").write_text(
        f"task: translation\ndata: {{root: {tmp_path}, test: {{mine: mine.tsv}}}}\n", "utf-8"
    )
    assert resolved(str(tmp_path / "mine.yaml"))["data"]["test"] == {"mine": "mine.tsv"}


def test_every_default_that_is_printed_is_the_models_own(resolved):
    model = resolved("translation/numbers")["model"]
    said = yaml.safe_load(find_recipe("translation/numbers").read_text("utf-8"))["model"]
    own = inspect.signature(Transformer.__init__).parameters
    assert set(model) == set(own) - {"self", "vocab_size", "source_vocab_size", "like"}
    assert all(model[key] == own[key].default for key in set(model) - set(said))
