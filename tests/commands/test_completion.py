"""Tab completes what can follow, in bash and in zsh."""

import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import shtab
import torch

from tfzoo.base.registry import registry
from tfzoo.commands import machine
from tfzoo.commands.completion import every_command
from tfzoo.commands.main import COMMANDS, main
from tfzoo.runs.machine import hardware


def completed(*lines):
    """What one bash offers for the last word of each of these lines."""
    code = shtab.complete(every_command(), "bash")
    for words in lines:
        count = len(words.split(" ")) - 1
        code += f"\nCOMP_WORDS=({words!s} ''); COMP_CWORD={count}; _shtab_tfzoo"
        code += '\necho "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True)
    return [{*line.split()} for line in done.stdout.splitlines()]


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_what_can_follow_is_offered():
    wanted = {
        "tfzoo ": {*COMMANDS},
        "tfzoo fit translation/numbers_z": {"translation/numbers_zh"},
        "tfzoo fit x --model.norm ": {*registry("norm").names()},
        "tfzoo fit x --optim.l": {"--optim.lr", "--optim.label_smoothing"},
        "tfzoo sweep ablations/pos": {"ablations/position"},
        "tfzoo export --ou": {"--output"},
        "tfzoo export run --to o": {"onnx"},
        "tfzoo show norm rm": {"rms"},
        "tfzoo fit x --trainer.logger W": {"WandbLogger"},
    }
    assert dict(zip(wanted, completed(*wanted), strict=True)) == wanted


def test_a_sound_installation_lists_versions_and_every_extra(capsys):
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    for said in (torch.__version__.partition("+")[0], "CPU threads", "lightning", "wandb"):
        assert said in out
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))
    for extra in project["project"]["optional-dependencies"]:
        assert f"extra {extra} " in out


def test_a_gpu_with_too_old_a_driver_is_none(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert main(["doctor"]) == 0
    assert "gpus" not in hardware()


def test_an_extra_that_is_missing_is_said(monkeypatch, capsys):
    monkeypatch.setattr(machine, "requires", lambda name: ['an-engine>=2; extra == "ray"'])
    assert main(["doctor"]) == 0
    assert "pip install 'tfzoo[ray]' adds an-engine" in capsys.readouterr().out
