"""Two trainings are given one folder: one trains, the other says who does."""

import io
import os
import re
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from multiprocessing import get_context
from pathlib import Path
from unittest.mock import patch

import pytest

from tests import results
from tests.commands.test_fit import TINY
from tests.forked import requires_fork, together
from tests.runs.test_lock import process
from tfzoo.commands.main import main
from tfzoo.runs import folder

STEPS = 60
RUN = Path("run")
FIT = (
    *("fit", "translation/numbers", *TINY, "--run", str(RUN), "--data.workers", "0"),
    *("--trainer.max_steps", str(STEPS), "--trainer.val_check_interval", "20"),
)

pytestmark = requires_fork


MOMENTS: dict[str, Callable[[], bool]] = {
    "both at once": lambda: True,
    "the folder is there": RUN.is_dir,
    "the folder is held": (RUN / "lock.owner").exists,
    "the data is prepared": (RUN / "config.yaml").exists,
    "training begins": (RUN / "summary.json").exists,
    "one step": lambda: rows() > 1,
    "a validation": lambda: rows() >= 20,
    "a checkpoint": (RUN / "checkpoints/last.ckpt").exists,
    "later": lambda: rows() >= 50,
    "the last step": lambda: rows() >= STEPS,
}
LATE = ("later", "the last step")
"""Moments after which the first may have ended before the second finds its lock."""


def rows():
    """Lines of ``metrics.csv``, its head among them."""
    file = RUN / "metrics.csv"
    return file.read_text().count("\n") if file.exists() else 0


def fit(moment=""):
    """Train, but take the folder only at a moment of another training; the exit code, and the line
    that says why it did not train.
    """

    choose = folder.choose

    def waiting(name, given):
        while moment and not MOMENTS[moment]():
            time.sleep(0.0005)
        return choose(name, given)

    said = io.StringIO()
    with patch.object(folder, "choose", waiting), redirect_stderr(said), redirect_stdout(said):
        code = main(FIT)
    lines = said.getvalue().splitlines()
    return code, "\n".join(one for one in lines if re.search("in use|is complete", one))


def check_run():
    """The run is complete, and no row of it is doubled."""
    section = results.summary(RUN)["fit"]
    assert section["ended"] == "completed"
    assert [one["ended"] for one in section["attempts"]].count("completed") == 1
    table = results.rows(RUN)
    steps = Counter(row["step"] for row in table if row["train/loss"])
    assert len(steps) == STEPS
    assert set(steps.values()) == {1}
    validated = Counter(row["step"] for row in table if row["val/loss"])
    assert set(validated.values()) == {1}


@pytest.fixture(autouse=True)
def in_its_own_folder(own_folder, monkeypatch):
    monkeypatch.delenv("TFZOO_RUN_FOLDER", raising=False)


def test_a_folder_that_is_in_use_is_left_as_it_is(capsys):
    RUN.mkdir()
    with process(RUN) as child:
        assert main(FIT) == 2
    error = capsys.readouterr().err
    assert f"is in use by process {child} on {os.uname().nodename}" in error
    assert error.count("\n") == 1
    assert {path.name for path in RUN.iterdir()} == {"lock", "lock.owner"}


@pytest.mark.nightly
@pytest.mark.parametrize("moment", MOMENTS)
def test_of_two_trainings_of_one_folder_one_trains(moment):
    (first, said_first), (second, said_second) = together(fit, [("",), (moment,)])
    print(f"{moment}: {first}, {second}")
    refused = [said for said in (said_first, said_second) if said]
    assert len(refused) == 1
    if moment in LATE and "is complete" in refused[0]:
        assert (first, second) == (0, 0)
    else:
        assert "is in use by process" in refused[0]
        assert sorted((first, second)) == [0, 2]
    check_run()


@pytest.mark.nightly
def test_a_training_that_was_killed_is_succeeded_at_once():
    for count in (2, 10, 30):  # after its first step, and before and after its first checkpoint
        child = get_context("fork").Process(target=fit)
        child.start()
        while rows() < count:
            time.sleep(0.001)
        os.kill(child.pid or 0, signal.SIGKILL)
        child.join()
        if count < 20:
            (RUN / "metrics.csv").unlink()
    assert fit() == (0, "")
    check_run()
