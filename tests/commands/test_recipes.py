"""Every recipe under recipes/ is parsed, built and trained for two steps."""

from pathlib import Path

import pytest
import yaml

from tests.daily import sampled
from tests.results import summary
from tests.typed import typed
from tfzoo.base.registry import create, describe
from tfzoo.commands.main import main
from tfzoo.config.recipe import find_recipe, packaged, packaged_recipes, packaged_sweeps

pytestmark = pytest.mark.usefixtures("no_pictures")
NAMES = packaged_recipes()
ROOT = Path(__file__).parents[2] / "recipes"
SMALL = typed(
    "--model.dim 16 --model.layers 1 --model.heads 2 --model.head_dim 8 --data.workers 0",
    "--trainer.max_steps 2 --trainer.accelerator cpu --trainer.devices 1",
)
SIZES = {"train": 200, "val": 4, "test": 4}


def test_all_recipes_are_found():
    paths = (path.relative_to(ROOT).with_suffix("") for path in ROOT.rglob("*.y*ml"))
    assert sorted(path.as_posix() for path in paths) == packaged()
    assert len(NAMES) >= 7
    assert sorted(NAMES + packaged_sweeps()) == packaged()


@pytest.mark.parametrize("name", sampled(NAMES, NAMES[::4]))
def test_a_recipe_trains(name, own_folder):
    """Small, on a few lines in the form in which it wants its text."""
    tree = yaml.safe_load(find_recipe(name).read_text("utf-8"))
    give = translated if tree["task"] == "translation" else classified
    labels = {"regression": "{number}", "token_classification": "B-{word} O O"}
    given = give(tree["data"], *([labels[tree["task"]]] if tree["task"] in labels else []))
    if "hidden" in (tree["model"].get("feedforward") or ""):
        given += ["--model.feedforward.hidden", "16"]
    tokenizer = describe("tokenizer", spec_name(tree["data"].get("tokenizer", "bpe")))
    given += ["--data.tokenizer.vocab_size", "300"] if "vocab_size" in tokenizer.options else []
    assert main(["fit", f"{ROOT / name}.yaml", *SMALL, *given]) == 0
    run = Path("runs") / name.rpartition("/")[2] / "1"
    assert (run / "checkpoints" / "last.ckpt").is_file()
    assert summary(run)["fit"]["steps"] == 2


def spec_name(spec):
    return spec if isinstance(spec, str) else str(spec["name"])


def translated(data):
    """A few sentence pairs, and what a translator's recipe is told of them."""
    searching = ["--search.beam", "1", "--search.max_length", "0.1"]
    if "dataset" in data:
        sizes = {**SIZES, "long": 4}.items()
        return [*searching, *(f"--data.dataset.{split}={size}" for split, size in sizes)]
    splits = create("dataset", {"name": "numbers", **SIZES, "long": 4}).splits(0)
    for split in SIZES:  # recipes monitor BLEU, which needs references of four words
        rows = [f"{source}\t{' '.join([target] * 4)}\n" for source, target in splits[split]]
        Path(f"{split}.tsv").write_text("".join(rows), "utf-8")
    files = [f"--data.{split}={split}.tsv" for split in SIZES]
    return [*searching, *(["--data.root", "."] if "root" in data else files)]


def classified(data, label="{word}"):
    """A few labelled texts, or pairs of texts, and what a classifier's recipe is told of them."""
    if "dataset" in data:
        small = {"depth": 3, "arguments": 3, "distance": 2, "min_length": 4, "max_length": 40}
        small |= {"longer": 4, "each": 4, **SIZES}
        known = describe("dataset", spec_name(data["dataset"])).options
        return [f"--data.dataset.{name}={small[name]}" for name in small if name in known]
    columns = data.get("text_column", "text")
    names = [columns] if isinstance(columns, str) else [*columns]
    names += [data.get("label_column", "label")]
    for split in ("train", "test"):
        rows = [
            [f"{word} {number} words"] * (len(names) - 1) + [label.format(word=word, number=number)]
            for number in range(40)
            for word in ("many", "few", "no")
        ]
        path = Path(data.get(split) or split).with_suffix(".tsv")
        path.write_text("".join("\t".join(row) + "\n" for row in [names, *rows]), "utf-8")
    return ["--data.root", "."]


@pytest.mark.parametrize("name", ["regression/files", "translation/files"])
def test_a_recipe_that_others_build_on_leaves_the_default_monitor_to_the_task(name):
    """Another task with ``base: regression/files`` has its own."""
    assert "checkpoint" not in yaml.safe_load(find_recipe(name).read_text("utf-8"))
