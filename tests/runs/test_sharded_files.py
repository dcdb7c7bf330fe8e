"""Sharded checkpoints are there whole or not at all, and nothing in them runs."""

import pickle
from pathlib import Path

import pytest
import torch
from torch.distributed import checkpoint as dcp
from torch.testing import assert_close

from tfzoo.errors import BadRun
from tfzoo.runs import checkpoints, sharded_files


class Marker:
    """Unpickled, it would write a file."""

    def __reduce__(self):
        return Path.touch, (Path("marker"),)


STATE = {
    "state_dict": {"a.weight": torch.arange(6.0).view(2, 3), "count": torch.tensor(3)},
    "optimizer_0": {"state.a.step": 1.5},
}


@pytest.fixture
def folder(own_folder):
    """A checkpoint as Lightning writes it."""
    path = own_folder / "last.ckpt"
    written(path)
    return path


def written(path, epoch=1):
    dcp.save(STATE, checkpoint_id=path)
    torch.save({"epoch": epoch}, path / sharded_files.REST)


def data(path):
    return next(path.glob("*.distcp"))


def test_a_folder_is_read_as_one_file_would_be(folder):
    found = sharded_files.read(folder)
    assert found["epoch"] == 1
    assert_close(found["state_dict"], STATE["state_dict"])
    assert found["optimizer_states"] == [{"state.a.step": 1.5}]


@pytest.mark.parametrize("missing", [sharded_files.REST, sharded_files.INDEX])
def test_without_its_last_file_it_is_no_checkpoint(folder, missing):
    (folder / missing).unlink()
    assert not sharded_files.is_sharded(folder)
    with pytest.raises(BadRun, match=r"no complete checkpoint"):
        checkpoints.read(folder)
    with pytest.raises(BadRun, match="holds no checkpoint"):
        checkpoints.find(folder.parent)


def test_every_flipped_bit_of_a_tensor_is_found(folder):
    good = data(folder).read_bytes()
    place = good.index(torch.arange(6.0).numpy().tobytes())
    data(folder).write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
    with pytest.raises(BadRun, match="damaged"):
        sharded_files.read(folder)


def test_a_torn_file_and_a_missing_one_are_found(folder):
    data(folder).write_bytes(data(folder).read_bytes()[:-200])
    with pytest.raises(BadRun, match="damaged"):
        sharded_files.read(folder)
    data(folder).unlink()
    with pytest.raises(BadRun, match="cannot read"):
        sharded_files.read(folder)


def test_code_in_the_index_is_refused_and_not_run(folder):
    (folder / sharded_files.INDEX).write_bytes(pickle.dumps(Marker()))
    with pytest.raises(BadRun, match="names"):
        sharded_files.read(folder)
    assert not Path("marker").exists()


@pytest.mark.parametrize("where", ["values", "rest"])
def test_code_in_a_value_or_in_the_rest_is_refused_and_not_run(folder, where):
    if where == "rest":
        torch.save({"epoch": Marker()}, folder / sharded_files.REST)
    else:
        sharded_files.remove(folder)
        dcp.save(
            {"state_dict": {"a": torch.ones(1)}, "optimizer_0": {"bad": Marker()}},
            checkpoint_id=folder,
        )
        torch.save({"epoch": 1}, folder / sharded_files.REST)
    with pytest.raises(BadRun, match="more than tensors and plain values"):
        sharded_files.read(folder)
    assert not Path("marker").exists()


def test_files_beside_the_folder_are_not_read(folder):
    index = sharded_files.read_index(folder)
    for info in index.storage_data.values():
        info.relative_path = f"../{info.relative_path}"
    (folder / sharded_files.INDEX).write_bytes(pickle.dumps(index))
    with pytest.raises(BadRun, match="no file of the folder"):
        sharded_files.read(folder)


def test_a_size_that_the_pieces_do_not_have_takes_no_memory(folder):
    index = sharded_files.read_index(folder)
    index.state_dict_metadata["state_dict.a.weight"].size = torch.Size([2**40, 3])
    (folder / sharded_files.INDEX).write_bytes(pickle.dumps(index))
    with pytest.raises(BadRun, match="do not make up its size"):
        sharded_files.read(folder)


def test_a_new_one_takes_the_place_of_the_old(folder):
    draft = sharded_files.temporary_name(folder)
    written(draft, epoch=2)
    sharded_files.rename(draft, folder)
    assert sharded_files.read(folder)["epoch"] == 2
    assert [path.name for path in folder.parent.iterdir()] == ["last.ckpt"]


@pytest.mark.parametrize("renames", [0, 1, 2])
def test_whenever_placing_is_cut_off_there_is_a_checkpoint(folder, renames, monkeypatch):
    draft = sharded_files.temporary_name(folder)
    written(draft, epoch=2)
    rename, done = Path.rename, []

    def cut_off(self, target):
        if len(done) == renames:
            raise KeyboardInterrupt
        done.append(target)
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", cut_off)
    monkeypatch.setattr(
        "shutil.rmtree", lambda *args, **kwargs: pytest.fail("too early") if len(done) < 2 else None
    )
    if renames < 2:
        with pytest.raises(KeyboardInterrupt):
            sharded_files.rename(draft, folder)
    else:
        sharded_files.rename(draft, folder)
    found = checkpoints.find(folder.parent)
    assert sharded_files.read(found)["epoch"] == (2 if renames == 2 else 1)
