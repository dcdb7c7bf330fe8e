"""Rotary frequencies that are scaled only after training, on the texts of ``recall``.

    tfzoo sweep ablations/extrapolation --jobs 2
    python benchmarks/yarn.py runs/extrapolation/position=rotary/seed-*

Each run was trained without scaling. It classifies the texts of its own test sets as it is, and
with slower rotation for so many times the length. The table has the mean accuracy over the runs
and, in parentheses, the least and the largest.
"""

import argparse
from pathlib import Path
from statistics import mean
from typing import Any

from tfzoo.base.registry import create
from tfzoo.data.sets.recall import LONGER
from tfzoo.tasks.classification import ClassificationTask

FACTORS = (2.0, 4.0, 8.0)
SETS = ("test", *LONGER)


def scaled(method: str, factor: float, longest: int) -> dict[str, Any]:
    """The spec of a rotary encoding for text ``factor`` times as long."""
    trained = {"original_max_length": longest} if method == "yarn" else {}
    return {"name": "rotary", "scaling": method, "factor": factor, **trained}


def accuracies(run: Path) -> dict[str, dict[str, float]]:
    """The accuracy of one run on each test set, by the scaling of its rotation."""
    task = ClassificationTask.load(run)
    task.eval()
    encoder, spec = task.model.encoder, task.recipe["data"]["dataset"]
    splits = create("dataset", spec).splits(task.recipe["seed"])
    longest = 1 + max(text.count(" ") + 1 for text, _ in splits["test"])  # EOS
    head_dim = task.model.encoder.position.rotated
    specs: dict[str, Any] = {"as trained": "rotary"}
    for method in ("linear", "ntk", "yarn"):
        specs |= {f"{method}, factor {f:g}": scaled(method, f, longest) for f in FACTORS}
    found: dict[str, dict[str, float]] = {}
    for name, one in specs.items():
        encoder.position = create("position", one, head_dim=head_dim)
        found[name] = {}
        for split in SETS:
            answers = task.predict(text for text, _ in splits[split])
            right = [a.label == label for a, (_, label) in zip(answers, splits[split], strict=True)]
            found[name][split] = mean(right)
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", type=Path, help="trained with position rotary")
    runs = [accuracies(run) for run in parser.parse_args().runs]
    print(f"| rotation | {' | '.join(SETS)} |\n|---|{'---:|' * len(SETS)}")
    for name in runs[0]:
        columns = [[run[name][split] for run in runs] for split in SETS]
        cells = [f"{mean(one):.2f} ({min(one):.2f} to {max(one):.2f})" for one in columns]
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
