"""Parts of another package are installed, listed, checked and trained without an edit."""

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from tests import forked
from tests.tiny import numbers
from tests.typed import typed

pytestmark = forked.requires_fork
HERE = Path(__file__).parent
SMALL = numbers("--trainer.max_steps 2", val=4, test=4, length=0.1)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The folder in which the other package is installed."""
    folder = tmp_path_factory.mktemp("plugin")
    package, target = folder / "package", folder / "installed"
    shutil.copytree(HERE, package, ignore=shutil.ignore_patterns("test_*", "__pycache__"))
    pip = [
        sys.executable,
        *typed("-m pip install -q --no-deps --no-build-isolation --no-index --target"),
        str(target),
    ]
    subprocess.run([*pip, str(package)], check=True, capture_output=True)
    return target


@pytest.fixture(scope="module")
def tfzoo(installed):
    """What typed commands print in one process that has the other package; they succeed."""

    def run(*lines):
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(installed.parent)
            return forked.call(commands, str(installed), lines, fresh=True)

    return run


def commands(installed, lines):
    """What commands print, with a folder of packages to import from."""
    sys.path.insert(0, installed)
    from tfzoo.commands.main import main

    printed = []
    for line in lines:
        with redirect_stdout(io.StringIO()) as out:
            assert main(typed(line)) == 0, line
        printed.append(out.getvalue())
    return printed


PARTS = {
    "attention": "soft_capped",
    "weighting": "sig_softmax",
    "norm": "mean_absolute",
    "position": "power_law",
    "feedforward": "sine",
    "dataset": "parity",
    "task": "counts",
}


def violations(installed):
    """Of the contracts of each part alone, without those that compile."""
    sys.path.insert(0, installed)
    from tfzoo.base.registry import registry
    from tfzoo.testing import contracts
    from tfzoo.testing.component import compiled_in_one_graph_it_computes_the_same as compiled
    from tfzoo.testing.contract import run_contract

    entries = [registry(kind).entry(name) for kind, name in PARTS.items()]
    pairs = [(one, rule) for one in entries for rule in contracts(one.kind) if rule is not compiled]
    found = [(one, run_contract(rule, one)) for one, rule in pairs]
    return [(entry.name, result.message) for entry, result in found if not result.ok]


def test_the_parts_hold_every_contract_alone(installed):
    assert forked.call(violations, str(installed), fresh=True) == []


@pytest.mark.nightly
def test_it_holds_every_contract_in_stacks(tfzoo):
    (checked,) = tfzoo("check attention soft_capped")
    assert "FAILED" not in checked
    assert "contracts hold" in checked


@pytest.mark.nightly
def test_it_trains_through_a_recipe_and_translates(tfzoo):
    chosen = (
        "--model.attention soft_capped --model.attention.cap 30 --model.norm mean_absolute "
        "--model.weighting sig_softmax --model.position power_law --model.feedforward sine"
    )
    tfzoo(f"fit translation/numbers {chosen} {' '.join(SMALL)} --run run", "score run")


@pytest.fixture(scope="module")
def counts(tfzoo, installed):
    """A run of the other package's task; beside it is the recipe ``counts.yaml``."""
    (installed.parent / "counts.yaml").write_text(
        "task: counts\nmodel: {dim: 16, heads: 2, layers: 1}\n"
        "data: {dataset: {name: listops, train: 64, val: 8, test: 8}}\n"
        "trainer: {max_steps: 2, accelerator: cpu, devices: 1, val_check_interval: 1}\n",
        "utf-8",
    )
    (said,) = tfzoo("fit counts.yaml --run counts")
    assert "tfzoo predict counts" in said
    scores = json.loads((installed.parent / "counts/summary.json").read_text("utf-8"))["test"]
    assert f"mae {scores['scores']['test/mae']:.4g}" in said
    return "counts"


def test_they_are_listed_and_its_task_is_checked_trained_tested_and_applied(
    tfzoo, installed, counts
):
    """Its best checkpoint is the one with the smallest score; its command is its own."""
    lines = installed.parent / "lines.txt"
    lines.write_text("[MAX 2 3 ]\n[MIN 2 3 ]\n", "utf-8")
    attentions, shown, checked, tasks, scored, answers, rows = tfzoo(
        *("list attention", "show attention soft_capped", "check task counts", "list task"),
        *("score counts --predictions tsv", "predict counts lines.txt"),
        "predict counts lines.txt --format jsonl",
    )
    assert "soft_capped  " in attentions
    assert "[arXiv:2408.00118, section 2]" in attentions
    assert "scaled_dot_product" in attentions
    assert "cap: float = 50.0" in shown
    assert re.search(r"(\d+) of \1 contracts hold", checked)
    assert "counts     " in tasks
    assert "mode: min" in (installed.parent / "counts/config.yaml").read_text("utf-8")
    assert "mae" in scored
    table = (installed.parent / "counts/predictions/test.tsv").read_text("utf-8").splitlines()
    assert (table[0], len(table)) == ("text\tvalue\treference", 9)
    values = [json.loads(row)["value"] for row in rows.splitlines()]
    assert values == pytest.approx([float(line) for line in answers.splitlines()], abs=1e-3)


SWEEP = """\
recipe: counts.yaml
overrides: {data.dataset.train: 2000, data.dataset.val: 100, trainer.val_check_interval: 10}
axes: {model.norm: [layer, rms], trainer.max_steps: [100], optim.lr: [0.01]}
seeds: [1, 2]
metric: {name: test/mae, mode: min}
"""


@pytest.mark.nightly
def test_its_task_is_swept(tfzoo, installed, counts, monkeypatch):
    """Each run is a process that finds the package; one may learn nothing in 100 steps."""
    monkeypatch.setenv("PYTHONPATH", f"{installed}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    (installed.parent / "sweep.yaml").write_text(SWEEP, "utf-8")
    tfzoo("sweep sweep.yaml --jobs 1 --run swept")
    rows = list(csv.DictReader((installed.parent / "swept" / "runs.csv").open(encoding="utf-8")))
    statuses = [row["status"] for row in rows]
    assert len(statuses) == 4
    assert {"completed"} <= set(statuses) <= {"completed", "learnt nothing"}
    assert all(float(row["test/mae"]) > 0 for row in rows)
