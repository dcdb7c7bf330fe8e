"""``tfzoo doctor`` finds what is wrong, and says how to mend it."""

import tomllib
from pathlib import Path
from types import SimpleNamespace

import torch

from tfzoo.base import cache
from tfzoo.commands import doctor
from tfzoo.commands.main import main


def test_a_sound_installation_has_nothing_to_mend_and_lists_every_extra(capsys):
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[-1] == "nothing is wrong"
    for said in (torch.__version__.partition("+")[0], str(cache.folder()), "cores", "lightning"):
        assert said in out
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))
    for extra in project["project"]["optional-dependencies"]:
        assert f"extra {extra} " in out


def test_a_package_that_is_missing_or_too_old_is_said(monkeypatch, capsys):
    found = {"einops": None, "lightning": "1.0"}
    wanted = ["einops<1,>=0.8", "lightning<3,>=2.6.6"]
    monkeypatch.setattr(doctor, "installed", lambda name: found.get(name, "9"))
    monkeypatch.setattr(doctor, "requires", lambda name: wanted)
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "! einops: pip install 'einops<1,>=0.8'" in out
    assert "! lightning" in out
    assert "1.0, tfzoo needs" in out
    assert out.splitlines()[-1] == "2 to mend"


def test_a_cache_that_cannot_be_written_is_said(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("TFZOO_CACHE", str(tmp_path / "file"))
    found = doctor.cache()
    assert "cannot be written" in found.value
    assert "TFZOO_CACHE" in found.mend


def test_every_extra_is_listed_with_what_it_installs(monkeypatch, capsys):
    wanted = {
        "tfzoo": [
            "torch>=2",
            'onnx<2,>=1.19; extra == "export"',
            'sacrebleu[ja]>=2.5; extra == "ja"',
            'ray>=2.50; extra == "ray"',
        ],
        "sacrebleu": ["lxml", 'MeCab; extra == "ja"'],
    }
    found = {"onnx": "1.20", "MeCab": None, "ray": "1.0"}
    extras = SimpleNamespace(get_all=lambda key, none: ["export", "ja", "ray"])
    monkeypatch.setattr(doctor, "installed", lambda name: found.get(name, "9"))
    monkeypatch.setattr(doctor, "requires", lambda name: wanted[name])
    monkeypatch.setattr(doctor, "metadata", lambda name: extras)
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "extra export" in out
    assert "onnx 1.20\n" in out
    assert "MeCab not installed; if you need it: pip install 'tfzoo[ja]'" in out
    assert "ray 1.0 (needed: >=2.50); if you need it: pip install 'tfzoo[ray]'" in out
