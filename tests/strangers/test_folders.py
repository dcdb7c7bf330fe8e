"""No shared folder and no checkpoint runs code, or takes the machine: each hostile one of a table
is refused in one line. A dozen are tried daily, all of them nightly, each in a process of its own
that measures time and memory.
"""

import os
import resource
import signal
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from tests import forked
from tests.strangers.folders import FILES, FOLDERS, good, hostile
from tfzoo.commands.main import main
from tfzoo.data import tokenizer_trial
from tfzoo.runs.folder import SUMMARY, attempts, read_summary, recorded_scores

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="pipes and devices")
DAILY = [
    "tokenizer, padding, to a billion",
    "tokenizer, normalizer, forty that double",
    "tokenizer, model, an id beyond",
    "tokenizer.json, a pipe",
    "tokenizer.json, a link to endless zeros",
    "config.json, a pipe",
    "model.safetensors, a link to endless zeros",
    "config, format [2]",
    'config, results {"a": "x"}',
    "config, 15 MB of lists",
    "weights, a header of all bits",
    "checkpoint, a pipe",
    "checkpoint, a tokenizer that pads",
    "checkpoint, many entries",
    "checkpoint, weights of texts",
]
SECONDS, MEMORY = 10, 2**30


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    place = tmp_path_factory.mktemp("whole") / "model"
    good(place)
    return place


def tried(name, whole, place):
    """What ``tfzoo translate`` does with a hostile folder, its seconds and its peak of memory, that
    of its children included.
    """
    run = hostile(name, whole, place / "model")
    (place / "beside.py").write_text("import pathlib\npathlib.Path('marker').touch()\n")
    (place / "text").write_text("one two\n")
    os.chdir(place)
    sys.path.insert(0, str(place))
    tokenizer_trial.KNOWN.hashes.clear()
    out, err, start = StringIO(), StringIO(), time.perf_counter()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(["translate", run, "text"])
    sys.path.remove(str(place))
    said = [line for line in err.getvalue().splitlines() if not line.startswith("checkpoint: ")]
    return {
        "code": code,
        "said": said,
        "seconds": time.perf_counter() - start,
        "child": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "ran": (place / "marker").exists(),
    }


def wrong(found):
    """What a hostile folder did that none should; ``""`` if it was refused."""
    if found["ran"]:
        return "it ran code"
    if found["seconds"] > SECONDS:
        return f"it took {found['seconds']:.1f} s"
    if found["code"] != 2 or len(found["said"]) != 1 or not found["said"][0].startswith("tfzoo: "):
        return f"exit code {found['code']}: {found['said'][:3]}"
    return "it has no reason" if len(found["said"][0]) > 1000 else ""


def test_the_good_folder_is_read(whole, tmp_path):
    tokenizer_trial.KNOWN.hashes.clear()
    (tmp_path / "text").write_text("one two\n")
    for run in (whole, whole / "good.ckpt"):
        assert main(["translate", str(run), str(tmp_path / "text")]) == 0
        assert len(tokenizer_trial.KNOWN.hashes) >= 1


@pytest.mark.parametrize("name", DAILY)
def test_a_hostile_folder_is_refused_in_one_line(name, whole, own_folder):
    signal.alarm(60)  # a pipe would wait for ever
    try:
        assert wrong(tried(name, whole, own_folder)) == ""
    finally:
        signal.alarm(0)


def nightly(name, whole, place):
    signal.alarm(60)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    found = tried(name, Path(whole), Path(place))
    return {**found, "memory": max(found["memory"] - before, found["child"])}


@pytest.mark.nightly
@pytest.mark.parametrize("half", range(20))
def test_hundreds_of_hostile_folders_take_neither_time_nor_memory(half, whole, tmp_path):
    names = [*FOLDERS, *FILES][half::20]
    failed = {}
    for name in names:
        place = tmp_path / str(len(list(tmp_path.iterdir())))
        place.mkdir()
        try:
            found = forked.call(nightly, name, str(whole), str(place))
        except RuntimeError as error:
            failed[name] = str(error).strip().splitlines()[-1]
            continue
        why = wrong(found) or ("it took 1 GB" if found["memory"] > MEMORY else "")
        failed |= {name: why} if why else {}
    print(f"{len(names)} hostile folders, {len(failed)} of them not refused")
    assert failed == {}


def test_there_are_enough_hostile_folders():
    assert len(FOLDERS) + len(FILES) >= 200
    assert {*DAILY} <= {*FOLDERS, *FILES}


@pytest.mark.parametrize(
    "content",
    [
        '{"fit": []}',
        '{"fit": {"attempts": 7}}',
        '{"test": {"checkpoint": "best.ckpt", "scores": [1]}}',
        '{"test": {"checkpoint": "best.ckpt", "scores": {"a": "x", "b": [1]}}}',
        "[1]",
        "[" * 100_000,
    ],
)
def test_a_summary_of_other_types_says_nothing(content, tmp_path):
    (tmp_path / SUMMARY).write_text(content)
    assert recorded_scores(tmp_path, "best.ckpt") == {}
    assert read_summary(tmp_path).get("fit", {}).get("seconds") is None
    assert attempts(tmp_path) == []
