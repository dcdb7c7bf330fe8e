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


def test_an_extra_that_is_missing_is_said(monkeypatch, capsys):
    monkeypatch.setattr(machine, "requires", lambda name: ['an-engine>=2; extra == "ray"'])
    assert main(["doctor"]) == 0
    assert "pip install 'tfzoo[ray]' adds an-engine" in capsys.readouterr().out
