"""A disk that fills up during training costs what does not fit, not the training."""

import json
import os
import subprocess
import sys

import pytest

from tests.tiny import numbers

FITS = """
import contextlib, io, json, sys, torch
from pathlib import Path
from tfzoo import TranslationTask
from tfzoo.commands.main import main
from tfzoo.runs.checkpoints import newest, read

disk, step, found = Path(sys.argv[1]), TranslationTask.training_step, {}

def fill():
    with (disk / "filler").open("wb", 0) as stream, contextlib.suppress(OSError):
        while stream.write(bytes(4096)):
            pass

for name in ("empties", "stays full"):
    trained = 0

    def filling(self, batch, index):
        global trained
        trained += 1
        if trained == 3:
            fill()
        elif trained == 6 and name == "empties":
            (disk / "filler").unlink()
        return step(self, batch, index)

    TranslationTask.training_step = filling
    with contextlib.redirect_stderr(io.StringIO()) as said:
        code = main([*sys.argv[2:], "--run", str(disk / name)])
    last, passed = newest(disk / name)
    files = sorted(path.name for path in (disk / name).rglob("*") if path.is_file())
    lines = [line for line in said.getvalue().splitlines() if line.startswith("tfzoo: ")]
    saved = read(last)["global_step"]
    found[name] = {"code": code, "trained": trained, "last": saved, "passed": passed}
    found[name] |= {"said": lines, "files": files}
print("FOUND", json.dumps(found))
"""
COMMAND = (
    *("fit", "translation/numbers"),
    *numbers("--trainer.log_every_n_steps 1 --trainer.max_steps 8"),
    *("--trainer.val_check_interval", "100", "--checkpoint.every_n_train_steps", "1"),
)


def small_disk(folder, *command):
    """The command, with a file system of 2 MB of its own in a folder."""
    return [
        "unshare",
        "-Urm",
        "sh",
        "-c",
        'mount -t tmpfs -o size=2m none "$0" && exec "$@"',
        str(folder),
        *command,
    ]


@pytest.mark.nightly
def test_training_goes_on_and_says_so_and_fails_only_if_its_end_was_not_saved(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    try:
        subprocess.run(small_disk(disk, "true"), check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this system lets nobody mount a small file system (unshare -Urm)")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "WANDB_MODE": "offline"}
    ran = subprocess.run(
        small_disk(disk, sys.executable, "-c", FITS, str(disk), *COMMAND),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout.partition("FOUND ")[2])
    for name, one in found.items():
        assert one["trained"] == 8, f"{name}: training goes on"
        assert one["passed"] == [], "the checkpoint before is as it was"
        assert not any(file.endswith(".tmp") for file in one["files"]), one["files"]
        said = [line for line in one["said"] if "last.ckpt: No space left on device" in line]
        assert len(said) == 1, "said once"
        assert "Training goes on, the next save tries again" in said[0]
    empties, full = found["empties"], found["stays full"]
    assert (empties["code"], empties["last"]) == (0, 8)
    assert any("last.ckpt is written again" in line for line in empties["said"])
    assert (full["code"], full["last"]) == (1, 2)
    assert any("training ended after step 8, but could not write" in line for line in full["said"])
