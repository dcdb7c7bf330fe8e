"""What the scripts of this folder share: the page that they write to, and the models that they
train.
"""

from __future__ import annotations

import argparse
import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import yaml
from torch import Tensor

from tfzoo.base.registry import create
from tfzoo.base.special_ids import OWN
from tfzoo.commands.main import main as tfzoo_main
from tfzoo.data.batches import ParallelBatch
from tfzoo.plots.style import save
from tfzoo.tasks.translation import TranslationTask

PAD = OWN.pad

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "benchmarks/claims.md"
IMAGES = ROOT / "docs/images"
SETTING = ROOT / "recipes/ablations/heads.yaml"
"""The sweep whose recipe, options and number of steps the trained models have."""
SEEDS = (1, 2, 3)


@dataclass
class Found:
    """What a script found: tables by the name of their place in the page, pictures by file name."""

    tables: dict[str, list[str]] = field(default_factory=dict)
    pictures: dict[str, Figure] = field(default_factory=dict)


def arguments(description: str | None, **options: Mapping[str, Any]) -> argparse.Namespace:
    """``--write`` and what ``options`` adds, each with the arguments of ``add_argument``."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--write", action="store_true", help="into benchmarks/claims.md and docs/images"
    )
    for name, given in options.items():
        parser.add_argument(f"--{name}", **given)
    return parser.parse_args()


RUNS: Mapping[str, Any] = {
    "type": Path,
    "default": Path("runs/claims"),
    "help": "folder of the trained models, which are trained where they are not there yet",
}


def publish(found: Found, write: bool) -> None:
    """Print the tables, and with ``write`` put them into the page and save the pictures."""
    for name, lines in found.tables.items():
        print(f"{name}\n", *lines, "", sep="\n")
    if write:
        text = PAGE.read_text("utf-8")
        for name, lines in found.tables.items():
            text = with_table(text, name, lines)
        PAGE.write_text(text, "utf-8")
        for name, figure in found.pictures.items():
            save(figure, IMAGES / name)


def with_table(text: str, name: str, lines: Sequence[str]) -> str:
    """The page's text with this table between ``<!-- NAME -->`` and ``<!-- end -->``.

    Raises:
        ValueError: the page has no such place.
    """
    place = re.compile(rf"(?<=<!-- {name} -->\n).*?(?=<!-- end -->)", re.DOTALL)
    if not place.search(text):
        raise ValueError(f"{PAGE} has no <!-- {name} --> ... <!-- end -->")
    return place.sub(lambda _: "\n" + "\n".join(lines) + "\n\n", text, count=1)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A Markdown table; all columns but the first are aligned to the right."""
    return [
        f"| {' | '.join(columns)} |",
        f"|---|{'---:|' * (len(columns) - 1)}",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]


def mean_and_range(values: Sequence[float], digits: int = 2) -> str:
    """``0.31 (0.28 to 0.35)``; one number where the values agree."""
    low, mean, high = (
        f"{one:z.{digits}f}".replace("-", "−")
        for one in (min(values), sum(values) / len(values), max(values))
    )
    return mean if low == high else f"{mean} ({low} to {high})"


def trained(runs: Path, name: str, seed: int, options: Mapping[str, Any]) -> TranslationTask:
    """A model in the setting of the packaged sweeps with further options of the recipe, from
    ``runs/name/seed``; it is trained if it is not there.
    """
    sweep = yaml.safe_load(SETTING.read_text("utf-8"))
    given = {
        **{key: value for key, value in sweep["overrides"].items() if key != "explain"},
        "trainer.max_steps": sweep["budget"]["steps"],
        "trainer.accelerator": "cpu",
        "trainer.enable_progress_bar": False,
        **options,
    }
    folder = runs / name / str(seed)
    words = [str(word) for key, value in given.items() for word in (f"--{key}", str(value).lower())]
    if not (folder / "summary.json").exists() and tfzoo_main(
        ["fit", sweep["recipe"], "--run", str(folder), "--seed", str(seed), *words]
    ):
        raise RuntimeError(f"the training in {folder} failed")
    return TranslationTask.load(folder).eval()


def untrained(task: TranslationTask, seed: int) -> TranslationTask:
    """The same model with new initial weights."""
    task = copy.deepcopy(task)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for module in task.modules():
            if callable(reset := getattr(module, "reset_parameters", None)):
                reset()
    return task


def unseen(task: TranslationTask, run: Path) -> tuple[ParallelBatch, list[tuple[str, str]]]:
    """The test sentences of a run with their translations, as one batch and as text."""
    recipe = yaml.safe_load((run / "config.yaml").read_text("utf-8"))
    pairs = create("dataset", recipe["data"]["dataset"]).splits(recipe["seed"])["test"]
    sources, targets = zip(*pairs, strict=True)
    sides = task.tokenizer.source.encode(sources), task.tokenizer.target.encode(targets)
    return ParallelBatch.collate(list(zip(*sides, strict=True))), pairs


def real_tokens(batch: ParallelBatch, side: str) -> Tensor:
    """True at the real tokens that the encoder or the decoder reads: ``(b n)``."""
    mask, ids = (
        (batch.source_mask(), batch.source)
        if side == "encoder"
        else (batch.target_mask(), decoder_input(batch))
    )
    return torch.ones_like(ids, dtype=torch.bool) if mask.keys is None else mask.keys


def decoder_input(batch: ParallelBatch) -> Tensor:
    """What the decoder reads, the target without its EOS: ``(b q)``."""
    return batch.target[:, :-1] * (batch.target[:, 1:] != PAD)
