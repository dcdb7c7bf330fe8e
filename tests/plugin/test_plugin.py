"""An attention of another package: installed with pip, then listed, checked and trained, with no
edit to tfzoo.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SRC = HERE.parents[1] / "src"
SMALL = (
    *(
        "--data.dataset.train",
        "200",
        "--data.dataset.val",
        "4",
        "--data.dataset.test",
        "4",
        "--data.dataset.long",
        "4",
    ),
    *(
        "--model.dim",
        "16",
        "--model.heads",
        "2",
        "--model.layers",
        "1",
        "--search.max_length",
        "0.1",
    ),
    *("--trainer.max_steps", "2", "--trainer.accelerator", "cpu", "--trainer.devices", "1"),
)

Tfzoo = Callable[..., str]


@pytest.fixture(scope="module")
def tfzoo(tmp_path_factory: pytest.TempPathFactory) -> Tfzoo:
    """The command, where the other package is installed too; it must succeed, and returns what was
    printed.
    """
    folder = tmp_path_factory.mktemp("plugin")
    package, target = folder / "package", folder / "installed"
    shutil.copytree(HERE, package, ignore=shutil.ignore_patterns("test_*", "__pycache__"))
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "--target",
        str(target),
    ]
    subprocess.run([*pip, str(package)], check=True, capture_output=True)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(target), str(SRC)))}

    def run(*args: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "tfzoo", *args],
            cwd=folder,
            env=env,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def test_it_is_listed(tfzoo: Tfzoo) -> None:
    listed = tfzoo("list", "attention")
    assert "soft_capped  " in listed
    assert "[arXiv:2408.00118, section 2]" in listed
    assert "scaled_dot_product" in listed


def test_it_is_shown(tfzoo: Tfzoo) -> None:
    assert "cap: float = 50.0" in tfzoo("show", "attention", "soft_capped")


def test_it_holds_every_contract(tfzoo: Tfzoo) -> None:
    checked = tfzoo("check", "attention", "soft_capped")
    assert "FAILED" not in checked
    assert "contracts hold, 0 rules of style broken" in checked


def test_it_trains_through_a_recipe_and_translates(tfzoo: Tfzoo) -> None:
    chosen = (
        "--model.attention",
        "soft_capped",
        "--model.attention.cap",
        "30",
        "--model.position",
        "rotary",
    )
    tfzoo("fit", "translation/numbers", *chosen, *SMALL, "--run", "run")
    tfzoo("test", "run")
