"""docs/architecture.md names rooms and functions that there are, and calls them in its order."""

import os
import re
import signal
import sys
import threading
from functools import cache
from pathlib import Path

import pytest

import tfzoo
from benchmarks.structure import Source
from tests import forked
from tests.docs.pages import ROOT
from tests.tiny import numbers

pytestmark = forked.requires_fork
PAGE = (ROOT / "docs/architecture.md").read_text("utf-8")
HERE = Path(tfzoo.__file__).parent
WALKS = {
    section.partition("\n")[0]: re.findall(r"^\d+\. `([\w/]+\.py:[\w.]+)`", section, re.MULTILINE)
    for section in PAGE.split("\n## ")[1:]
}
BATCH, OPTION, KILL, SWEEP, SERVE = [name for name, steps in WALKS.items() if steps]
TRAIN = numbers("--model.norm rms --trainer.limit_val_batches 0", val=4, test=4, length=0.1)
CELLS = """
recipe: classification/listops
overrides:
  trainer.max_steps: 2
  trainer.accelerator: cpu
  trainer.devices: 1
  data.dataset: {name: listops, train: 64, val: 8, test: 8}
  model.dim: 16
  model.layers: 1
  model.heads: 2
axes: {model.norm: [layer, rms]}
seeds: [1, 2, 3]
metric: {name: test/loss, mode: min}
"""


@cache
def source():
    return Source(HERE)


def calls_of(work):
    """The calls of the page's functions that the work makes, by the names that they have there."""
    named = {step for steps in WALKS.values() for step in steps}
    calls = []

    def note(frame, event, argument):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(HERE)):
            file = Path(code.co_filename).relative_to(HERE).as_posix()
            if (name := f"{file}:{code.co_qualname}") in named:
                calls.append(name)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def training(folder):
    """The calls of a training that gets SIGTERM in its second step."""
    from tfzoo.commands.main import main
    from tfzoo.tasks.translation import TranslationTask

    os.chdir(folder)
    step = TranslationTask.training_step

    def killed(self, batch, batch_idx):
        if batch_idx == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return step(self, batch, batch_idx)

    killed.__code__ = killed.__code__.replace(co_filename=str(folder / "killed.py"))
    TranslationTask.training_step = killed
    command = ["fit", "translation/numbers", *TRAIN, "--trainer.max_steps", "9", "--run", "run"]
    return calls_of(lambda: main(command))


def resumed(folder):
    """The calls of the training that goes on."""
    from tfzoo.commands.main import main

    os.chdir(folder)
    command = ["fit", "translation/numbers", *TRAIN, "--trainer.max_steps", "3", "--run", "run"]
    return calls_of(lambda: main(command))


def served(folder):
    """What the thread of the model calls to answer a text."""
    from tfzoo.tasks.translation import TranslationTask

    task = TranslationTask.load(folder / "run")
    return calls_of(lambda: task.answers(["two plus two"]))


def swept(folder):
    """The calls of a sweep of two cells."""
    from tfzoo.commands.main import main

    os.chdir(folder)
    (folder / "cells.yaml").write_text(CELLS, "utf-8")
    return calls_of(lambda: main(["sweep", "cells.yaml", "--run", "sweep"]))


def check(walk, called, steps=slice(None)):
    """The steps of a walk are called, in its order."""
    rest = iter(called)
    assert [step for step in WALKS[walk][steps] if step not in rest] == []


def test_every_function_of_a_walk_is_there():
    known = {f"{file}:{name}" for file, name in source().definitions}
    assert [step for steps in WALKS.values() for step in steps if step not in known] == []
    assert all(len(WALKS[walk]) >= 8 for walk in (BATCH, OPTION, KILL, SWEEP, SERVE))


def test_the_page_and_its_picture_have_the_rooms_that_there_are():
    rooms = {name for name in source().rooms() if not name.startswith("__")}
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", PAGE, re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == rooms
    picture = (ROOT / "docs/images/house.svg").read_text("utf-8")
    drawn = set(re.findall(r"<!-- (\w+) -->", picture))
    assert drawn == rooms, "python -m benchmarks.house draws it again"


@pytest.mark.nightly
def test_a_batch_an_option_and_a_kill_take_the_ways_of_the_page(tmp_path):
    called = forked.call(training, tmp_path, fresh=True)
    check(OPTION, called)
    check(BATCH, called)
    check(KILL, called, slice(4))


@pytest.mark.nightly
def test_a_resume_and_a_text_take_the_ways_of_the_page(tmp_path):
    forked.call(training, tmp_path, fresh=True)
    check(KILL, forked.call(resumed, tmp_path, fresh=True), slice(4, None))
    check(SERVE, forked.call(served, tmp_path, fresh=True), slice(2, None))


@pytest.mark.nightly
def test_a_sweep_takes_the_way_of_the_page(tmp_path):
    check(SWEEP, forked.call(swept, tmp_path, fresh=True))
