"""A folder with safetensors holds a trained run, and nothing that runs."""

import json
import os
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from safetensors.torch import load_file
from torch.testing import assert_close

from tests.exporting.tasks import LINES, classifier, translator
from tests.json_files import edit
from tests.runs.test_checkpoint_io import room
from tfzoo import ClassificationTask, TranslationTask
from tfzoo.base import cache
from tfzoo.base.registry import registry
from tfzoo.commands.main import main
from tfzoo.errors import BadRun
from tfzoo.runs import checkpoints
from tfzoo.testing.training import example


@pytest.fixture
def folder(own_folder):
    task = translator()
    task.recipe["data"] = {"root": "/home/me/multi30k", "source": "en"}
    task.results = {"test/bleu": 12.5}
    task.save_pretrained("model")
    return Path("model")


def test_a_translator_comes_back_with_its_tokenizer_settings_and_scores(folder):
    found, wanted = TranslationTask.load(folder), translator()
    assert_close(dict(found.state_dict()), dict(wanted.state_dict()), rtol=0, atol=0)
    assert found.translate(LINES, beam=2) == wanted.translate(LINES, beam=2)
    assert found.results == {"test/bleu": 12.5}
    assert found.model.source_embedding is found.model.target_embedding


def test_what_is_shared_is_stored_once_and_no_folder_of_the_machine_is_told(folder):
    assert {path.name for path in folder.iterdir()} == {
        *("model.safetensors", "config.json", "tokenizer.json", "README.md")
    }
    assert "model.source_embedding.weight" in TranslationTask.load(folder).state_dict()
    assert len(load_file(folder / "model.safetensors")) == len(translator().state_dict()) - 1
    config = json.loads((folder / "config.json").read_text("utf-8"))
    assert config["recipe"]["data"]["root"] == "multi30k"
    assert "/home/me" not in (folder / "README.md").read_text("utf-8")


def test_two_tokenizers_are_two_files(tmp_path):
    wanted = translator(joint=False)
    wanted.save_pretrained(tmp_path / "model")
    names = sorted(path.name for path in (tmp_path / "model").glob("tok*"))
    assert names == ["tokenizer_1.json", "tokenizer_2.json"]
    found = TranslationTask.load(tmp_path / "model")
    assert not found.tokenizer.joint
    assert found.translate(LINES) == wanted.translate(LINES)


def test_a_classifier_comes_back_with_its_labels(tmp_path):
    wanted = classifier()
    wanted.save_pretrained(tmp_path / "model")
    found = ClassificationTask.load(tmp_path / "model" / "model.safetensors")
    assert found.predict(LINES) == wanted.predict(LINES)


@pytest.mark.parametrize("name", registry("task").own_names())
def test_the_python_of_the_card_runs_for_every_task(name, own_folder):
    task, _ = example(registry("task").entry(name))
    task.save_pretrained("model")
    card = Path("model/README.md").read_text("utf-8")
    code = card.partition("```python\n")[2].partition("```")[0]
    exec(code.replace("hf://NAME/REPOSITORY", "model"), {})


def test_commands_read_the_folder_that_export_writes(folder, capsys):
    Path("lines").write_text("one two\n", "utf-8")
    assert main(["export", "model", "--output", "again"]) == 0
    said = []
    for run in ("model", "again"):
        capsys.readouterr()
        assert main(["predict", run, "lines"]) == 0
        said.append(capsys.readouterr().out)
    assert len(set(said)) == 1
    assert main(["export", "model", "--output", "no/such/folder"]) == 0
    for words, says in (
        ("--to safetensor --output x", "choose from 'safetensors'"),
        ("", "say where to write: --output FOLDER"),
        ("--output lines/export", "cannot write"),
    ):
        assert main(["export", "model", *words.split()]) == 2
        assert says in capsys.readouterr().err


def test_a_full_disk_is_said_in_one_line(folder, capsys):
    with room(10_000):
        assert main(["export", "model", "--output", "again"]) == 2
    assert "tfzoo: cannot write again: " in capsys.readouterr().err
    assert not list(Path().glob("again*"))


def test_nothing_is_replaced(folder, capsys):
    """No file, no folder, no device, no link."""
    Path("kept").mkdir()
    Path("kept/README.md").write_text("mine")
    Path("mine.ckpt").write_text("mine")
    os.mkfifo("pipe")
    Path("link").symlink_to("nothing")

    for output in ("/dev/null", "pipe", "link", "kept", "mine.ckpt"):
        assert main(["export", "model", "--output", output]) == 2
        assert f"{output} exists: remove it, or write elsewhere" in capsys.readouterr().err
    assert Path("mine.ckpt").read_text() == Path("kept/README.md").read_text() == "mine"
    assert not [path for path in Path().iterdir() if path.suffix == ".tmp"]


def changed(folder, **changes):
    edit(folder / "config.json", lambda config: config.update(changes))


def test_weights_that_may_not_be_read_are_not_called_damaged_by_their_sum(folder, monkeypatch):
    monkeypatch.setattr("hashlib.file_digest", Mock(side_effect=PermissionError))
    with pytest.raises(BadRun, match=r"\(PermissionError\) and cannot be read"):
        checkpoints.read("model")


def hostile_config(folder):
    (folder / "config.json").write_text("[" * 100_000, "utf-8")


def hostile_weights(folder):
    data = bytearray((folder / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (folder / "model.safetensors").write_bytes(data)


def sum_of(folder):
    return cache.checksum(folder / "model.safetensors")


def short_weights(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-8])
    changed(folder, sha256=sum_of(folder))


def a_pickle(folder):
    torch.save({"w": torch.zeros(2)}, folder / "model.safetensors")
    changed(folder, sha256=sum_of(folder))


HOSTILE = {
    "nested": (hostile_config, "damaged"),
    "a flipped bit": (hostile_weights, "sum is wrong"),
    "cut short": (short_weights, "damaged"),
    "a pickle": (a_pickle, "damaged"),
    "a file elsewhere": (
        lambda folder: changed(folder, tokenizer={"states": [{"file": "../../secret"}]}),
        "no tokenizer's",
    ),
    "a file that is missing": (
        lambda folder: changed(folder, tokenizer={"states": [{"file": "tokenizer_7.json"}]}),
        "No such file",
    ),
    "a newer format": (lambda folder: changed(folder, format=99), "format 99"),
    "no object": (lambda folder: (folder / "config.json").write_text("[1]"), "no configuration"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_folder_that_was_changed_is_refused_in_one_line(name, folder):
    change, says = HOSTILE[name]
    change(folder)
    with pytest.raises(BadRun, match=says) as error:
        checkpoints.read(folder)
    assert "\n" not in str(error.value)
