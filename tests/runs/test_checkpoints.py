"""A checkpoint is read only if it is whole and holds nothing that runs."""

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tfzoo.errors import BadRun
from tfzoo.learning.trained_run import TrainedRun
from tfzoo.runs.checkpoints import find, newest, read


def content(**changes):
    kept = {"format": 2, "task": "translation", "recipe": {}, "tokenizer": {}, "batches": 3}
    return {"state_dict": {"w": torch.arange(4096.0)}, "tfzoo": {**kept, **changes}}


@pytest.fixture
def checkpoint(tmp_path):
    path = tmp_path / "run" / "checkpoints" / "best.ckpt"
    path.parent.mkdir(parents=True)
    torch.save(content(), path)
    return path


def refused(path, *says):
    with pytest.raises(BadRun) as error:
        read(path)
    message = str(error.value)
    assert "\n" not in message
    assert str(path) in message
    for words in says:
        assert words in message


def test_one_flipped_bit_in_what_it_holds_is_found(checkpoint):
    whole = checkpoint.read_bytes()
    with zipfile.ZipFile(checkpoint) as archive:
        entries = [
            (entry.header_offset, entry.file_size, entry.filename) for entry in archive.infolist()
        ]
    for offset, size, name in entries:
        start = whole.index(name.encode(), offset) + len(name)
        start += int.from_bytes(
            whole[offset + 28 : offset + 30], "little"
        )  # the extra field that aligns the content
        broken = bytearray(whole)
        broken[start + size // 2] ^= 1
        checkpoint.write_bytes(broken)
        refused(checkpoint, "damaged")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"format": 1}, "format 1, this tfzoo reads 2: it was written by another version"),
        ({"format": 3}, "format 3"),
        ({"task": "sorting"}, "is of the task 'sorting', not 'translation'$"),
        ({"task": "token_classification"}, "not 'translation'"),
        ({"recipe": None}, "recipe is missing, or of another type"),
    ],
)
def test_one_that_is_not_for_this_is_told_apart(checkpoint, changes, says):
    torch.save(content(**changes), checkpoint)
    with pytest.raises(BadRun, match=says):
        TrainedRun(checkpoint).check_task("translation")


def test_a_folder_means_its_best_checkpoint_or_its_last(checkpoint):
    run = checkpoint.parents[1]
    last = checkpoint.with_name("last.ckpt")
    torch.save(content(), last)
    assert find(run) == checkpoint
    checkpoint.unlink()
    assert find(run) == last


def test_of_several_the_best_is_what_the_last_remembers(checkpoint):
    names = [checkpoint.with_name(f"step={n}.ckpt") for n in (1, 2)]
    checkpoint.rename(names[1])
    torch.save(content(), names[0])
    state = {"ModelCheckpoint": {"best_model_path": f"/elsewhere/{names[1].name}"}}
    torch.save({**content(), "callbacks": state}, checkpoint.with_name("last.ckpt"))
    assert find(checkpoint.parents[1]) == names[1]


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def dangle(path):
    path.unlink()
    path.symlink_to(path.with_name("gone.ckpt"))


def rewrite(path, **changes):
    torch.save({**going(9), **changes}, path)


def going(batches):
    """A checkpoint that a training can go on from."""
    return {
        **content(batches=batches),
        "optimizer_states": [{"state": {}}],
        "callbacks": {"LastCheckpoint": {"within_step": False}},
        "loops": {},
    }


@pytest.fixture
def run(tmp_path):
    """A run with three checkpoints; the file of the newest is not the latest written."""
    folder = tmp_path / "run" / "checkpoints"
    folder.mkdir(parents=True)
    for name, batches in (("last", 9), ("b", 6), ("a", 3)):
        torch.save(going(batches), folder / f"{name}.ckpt")
    return folder.parent


def test_a_run_goes_on_from_its_last_checkpoint_and_reads_no_other(run):
    flip(run / "checkpoints/a.ckpt")
    assert newest(run) == (run / "checkpoints/last.ckpt", [])


SPOILT: dict[str, tuple[Callable[[Path], Any], str]] = {
    "torn": (lambda path: path.write_bytes(path.read_bytes()[:-99]), "is cut short or damaged"),
    "empty": (lambda path: path.write_bytes(b""), "is no checkpoint"),
    "flipped": (flip, "is damaged"),
    "dangling": (dangle, "No such file"),
    "a folder": (lambda path: (path.unlink(), path.mkdir()), ""),
    "missing": (Path.unlink, "is missing"),
    "of a step's middle": (
        lambda path: rewrite(path, callbacks={"LastCheckpoint": {"within_step": True}}),
        "in the middle of a step",
    ),
    "weights": (lambda path: torch.save(content(), path), "holds weights only"),
    "without loops": (lambda path: rewrite(path, loops=None), "is damaged: loops is missing"),
    "without callbacks": (
        lambda path: rewrite(path, callbacks=[]),
        "damaged: callbacks is missing",
    ),
}


@pytest.mark.parametrize("name", SPOILT)
def test_where_the_last_is_spoilt_the_newest_good_one_is_used_and_that_is_said(run, name):
    spoil, says = SPOILT[name]
    spoil(run / "checkpoints/last.ckpt")
    path, said = newest(run)
    assert path == run / "checkpoints/b.ckpt"
    assert len(said) == 1
    assert "last.ckpt" in said[0]
    assert says in said[0]


def test_a_run_whose_checkpoints_are_all_spoilt_does_not_start_anew(run):
    for path in (run / "checkpoints").iterdir():
        flip(path)
    with pytest.raises(
        BadRun, match=r"none to go on from: .*last\.ckpt is damaged.*; .*a\.ckpt"
    ) as error:
        newest(run)
    assert "\n" not in str(error.value)


def test_the_run_of_a_checkpoint_is_the_folder_with_its_configuration(checkpoint):
    assert TrainedRun(checkpoint).folder is None
    (checkpoint.parents[1] / "config.yaml").write_text("", "utf-8")
    assert TrainedRun(checkpoint).folder == checkpoint.parents[1]


def test_a_sweep_in_place_of_a_run_is_named_with_its_runs(tmp_path):
    (tmp_path / "norm=rms/seed-1").mkdir(parents=True)
    for name in ("cells.json", "norm=rms/seed-1/config.yaml"):
        (tmp_path / name).touch()
    with pytest.raises(
        BadRun, match=r"is a sweep: tfzoo report .*, or name one of its runs: .*seed-1"
    ):
        find(tmp_path)
