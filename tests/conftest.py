"""What holds for all tests: they do not write to the user's cache and do not wait for the disk, and
a processor capability that is chosen for PyTorch holds for oneDNN too; pytest-xdist shares the work
by files.
"""

import gc
import os
from importlib.metadata import version
from typing import Any

import pytest

from tests.browser import CHROMIUM, chromium

# PyTorch's flash attention in bf16 asks oneDNN whether the processor packs pairs of numbers, and
# fails if ATEN_CPU_CAPABILITY then forbids it. Both libraries read this once, when they are loaded.
ISA = {"default": "SSE41", "avx2": "AVX2"}.get(os.environ.get("ATEN_CPU_CAPABILITY", ""))
if ISA is not None:
    os.environ.setdefault("ONEDNN_MAX_CPU_ISA", ISA)


TOGETHER = (
    "tests/testing/test_seeded_bugs.py",
    "tests/tasks/test_spread.py",
    "tests/norm/test_norm.py",
    "tests/docs/test_pages.py",
    "tests/docs/test_architecture.py",
    "tests/commands/test_imports.py",
    "tests/plugin/test_plugin.py",
    "tests/test_allocator.py",
    "tests/test_platforms.py",
    "tests/runs/test_memory.py",
    "tests/serving/",
    "tests/strangers/",
    "tests/sweep/test_processes.py",
)
"""Files whose processes are forked from one (see tests/forked.py), which is loaded once."""
FIRST = (
    *TOGETHER,
    "tests/commands/",
    "tests/models/",
    "tests/sweep/",
    "tests/testing/",
    "tests/test_transforms.py",
)
"""What takes long: at the end it would keep one process waiting for the other."""


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TFZOO_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setattr(os, "fsync", lambda number: None)  # no test cuts the power
        yield


@pytest.fixture
def own_folder(tmp_path, monkeypatch):
    """The working directory of a test, empty, in which no training has begun."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TFZOO_RUN_FOLDER", raising=False)
    return tmp_path


@pytest.fixture
def two_runs(own_folder):
    """The working directory with a translator, ``numbers.ckpt``, and a classifier, ``toy.ckpt``."""
    from tests.results import saved
    from tests.tasks.test_attention import classifier, translator

    saved(translator(), own_folder / "numbers.ckpt")
    saved(classifier(), own_folder / "toy.ckpt")
    return own_folder


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    """A cache of the test's own, where others have prepared nothing."""
    monkeypatch.setenv("TFZOO_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def no_pictures(monkeypatch):
    """Trainings draw no curves, which takes a quarter of the time of a tiny one."""
    monkeypatch.setattr("tfzoo.training.train.draw_curves", lambda *_: None)


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed")
    with chromium() as opened:
        yield opened


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not item.nodeid.startswith(FIRST))
    if tuple(map(int, version("torch").split(".")[:2])) < (2, 9):
        for item in items:
            if "muon" in item.nodeid:
                item.add_marker(pytest.mark.skip("PyTorch has Muon from version 2.9 on"))


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Modules and tests live to the end: the garbage collector looks at them neither meanwhile,
    which takes a quarter of the time, nor again.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """All tests of a file run in one process, which makes once what they share."""
    from xdist.scheduler import LoadFileScheduling

    class ByFile(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "forked" if nodeid.startswith(TOGETHER) else super()._split_scope(nodeid)

    config.option.loadscopereorder = False
    return ByFile(config, log)
