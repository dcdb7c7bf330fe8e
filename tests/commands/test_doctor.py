"""``tfzoo doctor`` finds what is missing, and says how to install it."""

import tomllib
from pathlib import Path

import torch

from tfzoo.commands import machine
from tfzoo.commands.main import main


def test_a_sound_installation_lists_versions_and_every_extra(capsys):
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    for said in (torch.__version__.partition("+")[0], "CPU threads", "lightning"):
        assert said in out
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))
    for extra in project["project"]["optional-dependencies"]:
        assert f"extra {extra} " in out


def test_a_package_that_is_missing_or_too_old_is_said(monkeypatch, capsys):
    found = {"einops": None, "lightning": "1.0"}
    wanted = ["einops<1,>=0.8", "lightning<3,>=2.6.6", 'ray>=2.50; extra == "ray"']
    monkeypatch.setattr(machine, "installed", lambda name: found.get(name, "1"))
    monkeypatch.setattr(machine, "requires", lambda name: wanted)
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "! einops not installed: pip install 'einops<1,>=0.8'" in out
    assert "! lightning 1.0: pip install 'lightning<3,>=2.6.6'" in out
    assert "pip install 'tfzoo[ray]' adds ray" in out
