"""A checkpoint file is whole or not there, and what cannot be written does not end training."""

import errno
import io
import os
import resource
import signal
from contextlib import contextmanager

import pytest
import torch

from benchmarks.kill import Events
from tfzoo.errors import BadRun
from tfzoo.runs.checkpoints import newest, read
from tfzoo.runs.folder import opened
from tfzoo.training.trainer import AtomicCheckpointIO


def content(batches, value=1.0):
    kept = {"format": 2, "task": "translation", "recipe": {}, "tokenizer": {}, "batches": batches}
    state = {
        "state": {0: {"exp_avg": torch.zeros(5000), "step": torch.tensor(3.0)}},
        "param_groups": [{"lr": 1e-3}],
    }
    return {
        "state_dict": {"w": torch.full((5000,), value), "n": torch.tensor(1)},
        "optimizer_states": [state],
        "callbacks": {},
        "loops": {},
        "tfzoo": kept,
    }


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "checkpoints"


@contextmanager
def room(size):
    """The system lets no file grow over so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_file_gets_its_name_when_all_of_it_is_on_the_disk(folder):
    events = Events()
    with events.watched():
        AtomicCheckpointIO().save_checkpoint(content(1), folder / "last.ckpt")
    first, *writes, last, rename, synced = events.seen
    temporary = first.removeprefix("open ")
    assert temporary.startswith(f"last.ckpt.{os.getpid()}-")
    assert set(writes) == {"write"}
    assert [last, rename, synced] == ["sync file", f"rename {temporary} last.ckpt", "sync folder"]
    assert [path.name for path in folder.iterdir()] == ["last.ckpt"]
    assert read(folder / "last.ckpt")["tfzoo"]["batches"] == 1


def test_a_kill_at_any_moment_of_a_save_leaves_the_checkpoint_before_or_the_new_one(folder):
    events = Events()
    with events.watched():
        AtomicCheckpointIO().save_checkpoint(content(1), folder / "last.ckpt")
    found = []
    for fatal in range(1, len(events.seen) + 1):
        AtomicCheckpointIO().save_checkpoint(content(1), folder / "last.ckpt")
        child = os.fork()
        if not child:
            with Events(fatal).watched():
                AtomicCheckpointIO().save_checkpoint(content(2), folder / "last.ckpt")
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        chosen, said = newest(folder.parent)
        assert chosen is not None
        assert (chosen, said) == (folder / "last.ckpt", [])
        found.append(read(chosen)["tfzoo"]["batches"])
        assert reopened(folder) == ["last.ckpt"]
    assert found == [1] * (len(found) - 1) + [2], (
        "only the last event, after the rename, has the new one"
    )


def test_a_full_disk_leaves_the_checkpoint_before(folder):
    writer, path = AtomicCheckpointIO(), folder / "last.ckpt"
    writer.save_checkpoint(content(1), path)
    for size in range(0, 40_000, 9_000):
        with room(size), pytest.raises(OSError, match=os.strerror(errno.EFBIG)):
            writer.save_checkpoint(content(2), path)
        assert [path.name for path in folder.iterdir()] == ["last.ckpt"], (
            "the draft gives its space back"
        )
        assert read(path)["tfzoo"]["batches"] == 1


@pytest.mark.parametrize("writes", [1, 2, 5])
def test_ctrl_c_in_the_middle_of_a_save_stays_one(folder, writes, monkeypatch):
    """``torch.save`` then complains of the file, which is not what happened."""
    AtomicCheckpointIO().save_checkpoint(content(1), folder / "last.ckpt")

    class Interrupted(io.FileIO):
        left = writes

        def write(self, data):
            self.left -= 1
            if not self.left:
                raise KeyboardInterrupt
            return super().write(data)

    monkeypatch.setattr("tfzoo.training.trainer.open", Interrupted, raising=False)
    with pytest.raises(KeyboardInterrupt):
        AtomicCheckpointIO().save_checkpoint(content(2), folder / "last.ckpt")
    assert [path.name for path in folder.iterdir()] == ["last.ckpt"]
    assert read(folder / "last.ckpt")["tfzoo"]["batches"] == 1


def test_what_is_loaded_is_checked(folder):
    writer = AtomicCheckpointIO()
    writer.save_checkpoint(content(1), folder / "last.ckpt")
    assert writer.load_checkpoint(folder / "last.ckpt", weights_only=False)["tfzoo"]["batches"] == 1
    data = bytearray((folder / "last.ckpt").read_bytes())
    data[len(data) // 3] ^= 1
    (folder / "last.ckpt").write_bytes(data)
    with pytest.raises(BadRun, match="damaged"):
        writer.load_checkpoint(folder / "last.ckpt", weights_only=False)


def reopened(folder):
    """The names of the checkpoints of a run that is opened again."""
    (folder.parent / "config.yaml").touch()
    with opened("", str(folder.parent)):
        return sorted(path.name for path in folder.iterdir())


def test_what_a_killed_process_left_is_removed_and_nothing_else(folder):
    folder.mkdir()
    kept = ["last.ckpt", "notes.tmp"]
    for name in ("last.ckpt.77-1.tmp", *kept):
        (folder / name).touch()
    assert reopened(folder) == kept
