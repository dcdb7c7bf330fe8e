"""A sweep over files of one's own is scored on their test set."""

import json
from pathlib import Path

import pytest
import yaml

from tests.sweep.files import Ended
from tfzoo.commands.main import main
from tfzoo.errors import BadData, BadRecipe
from tfzoo.sweep.plan.load import load
from tfzoo.sweep.run import local
from tfzoo.sweep.run.runs_csv import table

pytestmark = pytest.mark.usefixtures("no_pictures")
SMALL = {
    **{"optim.lr": 0.05, "optim.schedule.warmup": 1, "model.dropout": 0.0},
    **{"model.dim": 8, "model.layers": 1, "model.heads": 1, "data.tokenizer": "word"},
    **{"trainer.max_steps": 20, "trainer.accelerator": "cpu", "trainer.log_every_n_steps": 1},
}


def sweep(metric="test/accuracy", mode="max", also=(), **overrides):
    """Of files with two labels, as ``mine.yaml``."""
    for split in ("train", "val", "held"):
        rows = [f"{word} text\t{word}" for word in ("good", "bad") * 8]
        Path(f"{split}.tsv").write_text("\n".join(["text\tlabel", *rows, ""]))
    files = {f"data.{split}": str(Path(f"{split}.tsv").absolute()) for split in ("train", "val")}
    tree = {
        "recipe": "classification/files",
        "overrides": {**SMALL, **files, **overrides},
        "axes": {"model.norm": ["layer", "rms"]},
        "seeds": 1,
        "metric": {"name": metric, "mode": mode},
        "also": list(also),
    }
    Path("mine.yaml").write_text(yaml.safe_dump(tree))
    return "mine.yaml"


def test_each_run_has_the_score_of_its_test_set_and_those_judged_beside_it(
    own_folder, monkeypatch, capsys
):
    def start(run, words, *rest):
        run.folder.mkdir(parents=True, exist_ok=True)
        return Ended(local.train(run, words))

    monkeypatch.setattr(local, "start", start)
    also = [{"name": "val/loss", "mode": "min"}]
    file = sweep(also=also, **{"data.test": str(Path("held.tsv").absolute())})
    assert main(["sweep", file]) == 0
    rows = table("runs/mine")
    assert [row["status"] for row in rows] == ["completed"] * 2
    scored = [row[name] for row in rows for name in ("test/accuracy", "val/loss")]
    assert all(isinstance(score, float) for score in scored)
    summary = Path("runs/mine") / rows[0]["run_folder"] / "summary.json"
    summary.write_text(json.dumps({"fit": json.loads(summary.read_text())["fit"]}))
    assert table("runs/mine")[0]["status"] == "missing", "a run without its test goes on"


def test_what_cannot_be_scored_is_refused_before_the_first_run_with_the_reason(own_folder):
    with pytest.raises(BadRecipe, match=r"no metric 'test/accuracy'.*no test set.*data\.test: FI"):
        load(sweep())
    held = {"data.test": str(Path("held.tsv").absolute())}
    with pytest.raises(BadRecipe, match=r"'test/f1'.*Known: .*test/accuracy"):
        load(sweep(metric="test/f1", **held))
    assert load(sweep(**held)).metrics[0].name == "test/accuracy"
    with pytest.raises(BadData, match=r"no gone\.tsv in"):
        load(sweep(**{"data.val": str(Path("gone.tsv").absolute())}))
