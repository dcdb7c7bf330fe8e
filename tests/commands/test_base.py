"""A recipe that begins with another one holds what that one says, and its own changes."""

import pytest
import yaml

from tfzoo.commands.main import main


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


def resolved(*args, capsys):
    capsys.readouterr()
    assert main(["fit", *args, "--print_config"]) == 0
    found = yaml.safe_load(capsys.readouterr().out)
    return found


def test_levels_are_merged_and_shown_resolved(here, capsys):
    own = resolved("translation/numbers", capsys=capsys)
    found = resolved("mine/smaller.yaml", "--model.layers", "1", capsys=capsys)
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
