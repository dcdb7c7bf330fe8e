"""A LightningModule that is not tfzoo's is swept: its parts are swapped, its arguments varied."""

import sys
from pathlib import Path
from typing import Any

import lightning.pytorch as L
import pytest
import yaml
from torch import nn

import tfzoo
from tests.docs.pages import blocks
from tests.sweep.files import Ended
from tfzoo.commands.main import main
from tfzoo.errors import BadOption, TfzooError
from tfzoo.sweep.plan.load import load
from tfzoo.sweep.run import local
from tfzoo.sweep.run.runs_csv import table

PAGE = "docs/swap.md"
MODULE = next(block.text for block in blocks(PAGE, "python") if "# mine.py" in block.text)
FILE = yaml.safe_load(next(block.text for block in blocks(PAGE, "yaml")))
SMALL = {"axes": {"swap.norm": [None, "rms"], "module.layers": [1]}, "seeds": [1]}
SMALL |= {"budget": {"steps": 4}}


@pytest.fixture(autouse=True)
def somebodys(own_folder, monkeypatch):
    """Works in a folder with the page's ``mine.py``."""
    (own_folder / "mine.py").write_text(MODULE, "utf-8")
    monkeypatch.setattr(sys, "path", [*sys.path])
    sys.modules.pop("mine", None)
    yield
    sys.modules.pop("mine", None)


@pytest.fixture
def in_process(monkeypatch):
    """Runs train in this process."""

    def start(run, words, *rest):
        run.folder.mkdir(parents=True, exist_ok=True)
        return Ended(local.train(run, words))

    monkeypatch.setattr(local, "start", start)


def sweep(**changes):
    Path("mine.yaml").write_text(yaml.safe_dump({**FILE, **SMALL, **changes}), "utf-8")
    return "mine.yaml"


def refused(**changes):
    with pytest.raises(TfzooError) as caught:
        load(sweep(**changes), trust=True)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_its_norms_are_compared_by_a_metric_that_it_logs(in_process):
    assert main(["sweep", sweep(), "--trust", "--run", "runs/norms"]) == 0
    rows = table("runs/norms")
    assert [row["status"] for row in rows] == ["completed", "completed"]
    assert [row["swap.norm"] for row in rows] == ["null", "rms"]
    assert len({row["val_loss"] for row in rows}) == 2
    # a layer norm has a bias more, in two layers
    assert rows[0]["parameters"] - rows[1]["parameters"] == 2 * 16
    page = Path("runs/norms/report.html").read_text("utf-8")
    assert "mine:Mine" in page
    for stored in ("cells.json", "sweep.yaml", "report.html"):
        assert "--trust" not in Path("runs/norms", stored).read_text("utf-8"), stored
    assert main(["sweep", "mine.yaml", "--run", "runs/norms"]) == 2  # going on asks again


def test_a_metric_that_it_does_not_log_fails_its_runs_after_their_first_epoch(in_process):
    wrong = {"name": "val_los", "mode": "min"}
    overrides = {**FILE["overrides"], "trainer.limit_train_batches": 2}
    file = sweep(metric=wrong, overrides=overrides, budget={"steps": 1000})
    assert main(["sweep", file, "--trust", "--run", "runs/norms"]) == 1
    for row in table("runs/norms"):
        assert row["status"] == "failed"
        assert "no metric 'val_los'. Did you mean 'val_loss'?" in row["reason"]
        assert "It has logged: " in row["reason"]
    steps = Path("runs/norms").glob("*/seed-1/metrics.csv")
    assert all(path.read_text().count("\n") < 5 for path in steps)


def test_its_code_is_not_imported_without_trust(capsys):
    assert main(["sweep", sweep()]) == 2
    assert "module names 'mine:Mine', whose code would run" in capsys.readouterr().err
    assert main(["sweep", "mine.yaml", "--cell", "0"]) == 2
    assert "mine" not in sys.modules


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"recipe": "translation/numbers"}, "a recipe, or a module on data: remove one"),
        ({"module": "mine.Mine"}, "'mine.Mine' is no class: write package.module:Class"),
        ({"module": "mine:Mien"}, "cannot import mine:Mien: AttributeError"),
        ({"module": "mine:MineData"}, "mine:MineData is no LightningModule"),
        ({"overrides": {"module.lyers": 2}}, "has no argument 'lyers'. Did you mean 'layers'?"),
        ({"overrides": {"model.dim": 2}}, "model.dim is no key of the sweep of a module"),
        ({"overrides": {"trainer.logger": False}}, "trainer.logger is set by the sweep"),
        ({"overrides": {"swap.nrom": "rms"}}, "Did you mean 'norm'?"),
        ({"axes": {"swap.norm": ["rmz"]}}, "no norm named 'rmz'"),
        ({"budget": {}}, "training has no end"),
        ({"budget": {"steps": 2, "tokens": 3}}, "budget.tokens is for recipes"),
    ],
)
def test_a_mistake_is_one_line_before_the_first_run(changes, said):
    assert said in refused(**changes)


class Late(L.LightningModule):
    """Makes its layers in ``configure_model``."""

    def __init__(self, again: bool = False) -> None:
        super().__init__()
        self.model: Any = None
        self.again = again

    def configure_model(self):
        if self.model is None or self.again:
            self.model = nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 4))


def test_a_callback_swaps_once_before_the_optimiser_is_made():
    task, parts = Late(), tfzoo.SwapParts(norm="rms", module="model")
    for stage in ("fit", "test"):
        parts.setup(None, task, stage)
    assert parts.report is not None
    assert parts.report.replaced == ["0"]
    parts.setup(None, other := Late(), "fit")
    assert str(other.model[0]) == str(task.model[0])
    with pytest.raises(BadOption, match=r"SwapParts: Late: .*`modle`"):
        tfzoo.SwapParts(norm="rms", module="modle").setup(None, task, "fit")
