"""An attention and a weighting of another package: installed with pip, then listed, checked and
trained, with no edit to tfzoo.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from tests import forked

pytestmark = forked.requires_fork
HERE = Path(__file__).parent
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
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the other package is installed."""
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
    return target


@pytest.fixture(scope="module")
def tfzoo(installed: Path) -> Tfzoo:
    """The command, where the other package is installed too; it must succeed, and returns what was
    printed.
    """

    def run(*args: str) -> str:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(installed.parent)
            code, printed = forked.call(command, str(installed), list(args), fresh=True)
        assert code == 0, printed
        return str(printed)

    return run


def command(installed: str, args: list[str]) -> tuple[int, str]:
    """The exit code of a command and what it prints, with a folder of packages to import from."""
    sys.path.insert(0, installed)
    from tfzoo.commands.main import main

    with redirect_stdout(io.StringIO()) as out:
        code = main(args)
    return code, out.getvalue()


def test_it_is_listed(tfzoo: Tfzoo) -> None:
    listed = tfzoo("list", "attention")
    assert "soft_capped  " in listed
    assert "[arXiv:2408.00118, section 2]" in listed
    assert "scaled_dot_product" in listed


def test_it_is_shown(tfzoo: Tfzoo) -> None:
    assert "cap: float = 50.0" in tfzoo("show", "attention", "soft_capped")


def violations(installed: str, kind: str, name: str) -> list[str]:
    """Of the contracts of a component alone."""
    sys.path.insert(0, installed)
    from tfzoo.base.registry import registry
    from tfzoo.testing.contract import run_contract
    from tfzoo.testing.runner import contracts, rules_of_style

    entry = registry(kind).entry(name)
    asked = [*contracts(kind), *rules_of_style(kind)]
    return [one.message for one in (run_contract(rule, entry) for rule in asked) if not one.ok]


@pytest.mark.parametrize(
    ("kind", "name"), [("attention", "soft_capped"), ("weighting", "sig_softmax")]
)
def test_it_holds_every_contract_alone(installed: Path, kind: str, name: str) -> None:
    assert forked.call(violations, str(installed), kind, name, fresh=True) == []


@pytest.mark.nightly
def test_it_holds_every_contract(tfzoo: Tfzoo) -> None:
    """Also in models with every component of tfzoo's own."""
    checked = tfzoo("check", "attention", "soft_capped")
    assert "FAILED" not in checked
    assert "contracts hold, 0 rules of style broken" in checked


def test_it_trains_through_a_recipe_and_translates(tfzoo: Tfzoo) -> None:
    chosen = (
        "--model.attention",
        "soft_capped",
        "--model.attention.cap",
        "30",
        "--model.weighting",
        "sig_softmax",
        "--model.position",
        "rotary",
    )
    tfzoo("fit", "translation/numbers", *chosen, *SMALL, "--run", "run")
    tfzoo("test", "run")


def test_its_task_is_checked_trained_tested_and_applied(tfzoo: Tfzoo, installed: Path) -> None:
    """Its best checkpoint is the one with the smallest score; its command is its own."""
    recipe, lines = installed.parent / "median.yaml", installed.parent / "lines.txt"
    recipe.write_text(
        "task: median\nmodel: {dim: 16, heads: 2, layers: 1}\n"
        "data: {dataset: {name: listops, train: 64, val: 8, test: 8}}\n"
        "trainer: {max_steps: 2, accelerator: cpu, devices: 1, val_check_interval: 1}\n",
        "utf-8",
    )
    lines.write_text("[MAX 2 3 ]\n[MIN 2 3 ]\n", "utf-8")
    assert "7 of 7 contracts hold" in tfzoo("check", "task", "median")
    assert "median     " in tfzoo("list", "task")
    assert "  median " in tfzoo("--help")
    fitted = tfzoo("fit", "median.yaml", "--run", "medians")
    assert "tfzoo median medians" in fitted
    assert "mode: min" in (installed.parent / "medians/config.yaml").read_text("utf-8")
    assert "test/mae" in tfzoo("test", "medians") or "mae" in fitted
    tfzoo("predict", "medians")
    rows = (installed.parent / "medians/predictions/test.tsv").read_text("utf-8").splitlines()
    assert (rows[0], len(rows)) == ("text\tvalue\tprediction", 9)
    assert len([float(line) for line in tfzoo("median", "medians", "lines.txt").splitlines()]) == 2
