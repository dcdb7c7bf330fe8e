"""Every recipe under recipes/ is parsed, built and trained for two steps."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tfzoo.commands import packaged
from tfzoo.commands.main import main
from tfzoo.registry import create

NAMES = packaged.names()
ROOT = Path(__file__).parents[2] / "recipes"
SMALL = (
    *("--model.dim", "16", "--model.layers", "1", "--model.heads", "2", "--model.head_dim", "8", "--search.beam", "1"),
    *("--search.max_length", "0.1", "--trainer.max_steps", "2", "--trainer.accelerator", "cpu", "--trainer.devices", "1"),
    *("--data.tokenizer.vocab_size", "300", "--data.workers", "0"),
)


def test_all_recipes_are_found() -> None:
    assert sorted(path.relative_to(ROOT).with_suffix("").as_posix() for path in ROOT.rglob("*.y*ml")) == NAMES
    assert len(NAMES) >= 7


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_begins_with_what_it_does_and_the_command(name: str) -> None:
    header = packaged.find(name).read_text("utf-8").partition("\ntask:")[0]
    assert all(line.startswith("#") for line in header.strip().splitlines())
    assert f"tfzoo fit {name}" in header
    assert packaged.summary(name).endswith(".")


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_trains(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = yaml.safe_load(packaged.find(name).read_text("utf-8"))["data"]
    if "dataset" in data:
        more = ["--data.dataset.train", "200", "--data.dataset.val", "4", "--data.dataset.test", "4", "--data.dataset.long", "4"]
    else:
        sizes = {"train": 200, "val": 4, "test": 4, "long": 4}
        splits = create("dataset", {"name": "numbers", **sizes}).splits(0)
        for split in ("train", "val", "test"):
            rows = splits[split]
            Path(f"{split}.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in rows), "utf-8")
        more = ["--data.root", "."] if "root" in data else [f"--data.{split}={split}.tsv" for split in ("train", "val", "test")]
    hidden = ["--model.feedforward.hidden", "16"] if not name.endswith("zh_en") else []
    assert main(["fit", f"{ROOT / name}.yaml", *SMALL, *more, *hidden]) == 0
    run = Path("runs") / name.rpartition("/")[2] / "1"
    assert (run / "checkpoints" / "last.ckpt").is_file()
    assert (run / "summary.json").is_file()


@pytest.mark.parametrize(("name", "wanted"), [("base", (512, 8, 2048, 0.1, 100_000)), ("big", (1024, 16, 4096, 0.3, 300_000))])
def test_the_papers_recipes_hold_the_papers_numbers(name: str, wanted: tuple[float, ...]) -> None:
    tree = yaml.safe_load(packaged.find(f"translation/wmt14_{name}").read_text("utf-8"))
    model, optim = tree["model"], tree["optim"]
    assert (model["dim"], model["heads"], model["feedforward"]["hidden"], model["dropout"], tree["trainer"]["max_steps"]) == wanted
    assert (model["layers"], model["head_dim"], model["residual"], model["tie"]) == (6, 64, "post", "all")
    assert optim["lr"] == pytest.approx((model["dim"] * 4000) ** -0.5, rel=1e-6)
    assert (optim["betas"], optim["label_smoothing"], optim["schedule"]["warmup"]) == ([0.9, 0.98], 0.1, 4000)
    assert (tree["search"]["beam"], tree["search"]["length_penalty"]) == (4, 0.6)
