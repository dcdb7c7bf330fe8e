"""What the recipe, further files and options lay over each other, and what comes out."""

import inspect
import json

import pytest
import yaml

import tfzoo
from tests.typed import typed
from tfzoo import Transformer
from tfzoo.commands.main import main
from tfzoo.config.config import Config
from tfzoo.config.recipe import find_recipe, load_recipe, parse_options
from tfzoo.models import architectures


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


OPTIONS = {
    **{"bias": False, "cap": 30.0, "gate": True, "head_scale": True},
    "query_key_norm": {"norm": "rms", "over": "head"},
    "pattern": [{"window": 4}, {}],
    "residual": {"name": "deepnorm", "beta": 0.5},
}


def test_options_of_layers_are_typed_as_yaml(resolved):
    typed = [f"--model.{key} '{json.dumps(value)}'" for key, value in OPTIONS.items()]
    model = resolved(f"translation/numbers {' '.join(typed)}")["model"]
    assert {key: model[key] for key in OPTIONS} == OPTIONS


def test_the_norm_of_queries_and_keys_is_not_that_of_the_layers(resolved):
    """Also in the options of one side."""
    both = [f"--{key}.query_key_norm '{{norm: rms}}'" for key in ("model", "model.encoder")]
    rms = "--model.norm rms --model.norm.eps 0.1"
    model = resolved(f"translation/numbers {rms} {' '.join(both)}")["model"]
    assert model["query_key_norm"] == model["encoder"]["query_key_norm"] == {"norm": "rms"}


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


@pytest.fixture
def here(own_folder):
    (own_folder / "mine").mkdir()
    (own_folder / "mine/small.yaml").write_text(
        "base: translation/numbers\nmodel: {dim: 16, norm: {name: rms, eps: 1.0e-3}}\n", "utf-8"
    )
    (own_folder / "mine/smaller.yaml").write_text(
        "base: small.yaml\nmodel: {heads: 2, norm: {eps: 1.0e-4}}\n", "utf-8"
    )
    return own_folder


def test_levels_are_merged_and_shown_resolved(here, resolved):
    own = resolved("translation/numbers")
    found = resolved("mine/smaller.yaml --model.layers 1")
    changed = {"dim": 16, "heads": 2, "layers": 1, "norm": {"name": "rms", "eps": 1e-4}}
    assert found == {**own, "model": {**own["model"], **changed}}
    assert "base" not in found


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("base: again.yaml", "recipes that are based on each other"),
        ("base: translation/nubmers", "Did you mean 'translation/numbers'"),
        ("base: [a, b]", "the name or the path of one recipe, not ['a', 'b']"),
        ("base: translation/numbers\nmodel: {dimm: 8}", "again.yaml: model has no key 'dimm'"),
        ("base: wrong.yaml", "wrong.yaml: model has no key 'dimm'"),
    ],
)
def test_what_a_base_cannot_be_is_one_line(text, says, here, capsys):
    (here / "mine/again.yaml").write_text(text, "utf-8")
    (here / "mine/wrong.yaml").write_text("task: translation\nmodel: {dimm: 8}", "utf-8")
    assert main(["fit", "mine/again.yaml", "--print_config"]) == 2
    (line,) = capsys.readouterr().err.splitlines()[:1]
    assert says in line


def test_only_a_recipe_has_a_base(here, capsys):
    assert main(["fit", "translation/numbers", "--config", "mine/small.yaml"]) == 2
    assert "base" in capsys.readouterr().err


def test_the_command_lists_architectures_with_model_and_paper(capsys):
    assert main(["architectures"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == architectures.names()
    assert all(architectures.architecture(line.split()[0]).model in line for line in lines)


def section_of(folder, model, *words):
    """The section ``model`` of a recipe on built-in data."""
    path = folder / "mine.yaml"
    path.write_text(f"base: translation/numbers\nmodel: {model}\n", "utf-8")
    return Config.parse(load_recipe(str(path)), parse_options(words)).recipe["model"]


def test_like_in_a_recipe_sets_the_parts_and_every_key_can_be_changed_on_top(tmp_path):
    """It replaces what the base says of parts, and keeps its sizes."""
    found = section_of(tmp_path, "{like: t5, norm: {eps: 1.0e-5}, dropout: 0.0}")
    assert found["norm"] == {"name": "rms", "eps": 1e-5}
    assert found["attention"] == "dot_product"
    assert found["feedforward"] == {"name": "relu", "bias": False}
    assert (found["dim"], found["dropout"]) == (128, 0.0)


def test_a_recipe_is_written_without_like(tmp_path):
    found = section_of(tmp_path, "{like: t5}")
    assert "like" not in found
    assert section_of(tmp_path, json.dumps({**found, "like": None})) == found
    assert "like" not in tfzoo.LanguageModel(8, 8, 2, 1, like="llama").config


def test_like_on_the_command_line_comes_before_its_options(tmp_path):
    words = ("--model.norm.eps", "1e-4", "--model.like", "llama")
    found = section_of(tmp_path, "{norm: batch}", *words)
    assert found["norm"] == {"name": "rms", "eps": 1e-4}
    assert found["position"] == {"name": "rotary", "layout": "half"}
