"""What a swap of a part of a trained model costs at once, and after how many steps it is made good:

    for seed in 1 2 3 4 5
    do tfzoo fit language_modeling/agreement --seed $seed --run runs/agreement/$seed
    done
    tfzoo sweep benchmarks/trained.yaml --jobs 2 --run runs/trained
    python -m benchmarks.trained runs/trained --write

reads the validations of the sweep's runs, and writes the table of docs/trained.md.
"""

from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path
from statistics import mean

PAGE = Path(__file__).parents[1] / "docs/trained.md"
SCORE = "val/loss"
SHARE = 0.005
"""How far above that of the unchanged model, before its first step, a loss may be."""
HEAD = "| swap | val/loss at once | steps until it is made good | test/loss after {steps} steps |"


def validations(run: Path) -> dict[int, float]:
    """The score of each validation of a run, by step; 0 is before the first."""
    with (run / "metrics.csv").open(newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if row.get(SCORE)]
    return {int(row["step"]): float(row[SCORE]) for row in rows}


def runs_of(sweep: Path) -> dict[str, dict[int, Path]]:
    """The runs of each cell of a sweep by their seeds."""
    cells = json.loads((sweep / "cells.json").read_text("utf-8"))["cells"]
    found: dict[str, dict[int, Path]] = {}
    for cell in cells:
        folders = sorted((sweep / cell["name"]).glob("seed-*"))
        found[cell["labels"]["swap"]] = {int(one.name.partition("-")[2]): one for one in folders}
    return found


def table(sweep: Path) -> str:
    """Of Markdown."""
    runs = runs_of(sweep)
    unchanged = {seed: validations(run)[0] for seed, run in runs["nothing"].items()}
    lines, steps = [], 0
    for swap, by_seed in runs.items():
        found = {seed: validations(run) for seed, run in by_seed.items()}
        steps = max(next(iter(found.values())))
        good = [
            next((at for at in sorted(one) if one[at] <= (1 + SHARE) * unchanged[seed]), None)
            for seed, one in found.items()
        ]
        ends = [
            json.loads((run / "summary.json").read_text("utf-8"))["test"]["scores"]["test/loss"]
            for run in by_seed.values()
        ]
        words = ", ".join("not" if one is None else str(one) for one in good)
        at_once = mean(one[0] for one in found.values())
        lines.append(f"| {swap} | {at_once:.3f} | {words} | {mean(ends):.3f} |")
    return "\n".join([HEAD.format(steps=steps), "|---|---|---|---|", *lines])


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sweep", type=Path, help="its folder")
    parser.add_argument("--write", action="store_true", help="into docs/trained.md")
    given = parser.parse_args(words)
    text = table(given.sweep)
    print(text)
    if given.write:
        page = PAGE.read_text("utf-8")
        start = page.index("| swap |")
        PAGE.write_text(page[:start] + text + page[page.index("\n\n", start) :], "utf-8")


if __name__ == "__main__":
    main()
