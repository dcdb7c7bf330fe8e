"""What is installed with tfzoo and why, how large it is and how long it takes to import:
``python -m benchmarks.dependencies`` prints a table.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import distribution
from pathlib import Path

from benchmarks.structure import HERE

WHY = {
    "torch": "everything",
    "lightning": "training: loops, devices, precision, strategies",
    "torchmetrics": "scores, over all processes",
    "einops": "rearranging axes in parts",
    "wandb": "experiment tracking, where a recipe asks for it",
    "tokenizers": "BPE, unigram and word tokenizers",
    "matplotlib": "pictures of curves, positions, attention",
    "sacrebleu": "BLEU and chrF",
    "rich": "progress bars and tables in a terminal",
    "numpy": "ids and batches",
    "scipy": "t and Boschloo tests of sweeps",
    "datasets": "data sets of the hub, Parquet",
    "fsspec": "files at an address",
    "pyarrow": "tables in Parquet",
    "pyyaml": "recipes",
    "jinja2": "pages and reports",
    "markupsafe": "texts in pages",
    "filelock": "one writer a folder",
}
MODULES = {"pyyaml": "yaml"}
"""What is imported, where the name is another one."""
REPEATS = 3


def names() -> list[str]:
    """The dependencies of the core."""
    project = tomllib.loads((HERE / "pyproject.toml").read_text("utf-8"))["project"]
    return [re.split(r"[\[<>=]", one)[0] for one in project["dependencies"]]


def megabytes(name: str) -> float:
    """What its files take."""
    paths = [Path(str(file.locate())) for file in distribution(name).files or []]
    return sum(path.stat().st_size for path in paths if path.is_file()) / 1e6


def seconds(name: str) -> float:
    """The least time of an import in a new process."""
    module = MODULES.get(name, name)
    code = f"import time; a = time.perf_counter(); import {module}; print(time.perf_counter() - a)"
    command = [sys.executable, "-c", code]
    runs = [subprocess.run(command, capture_output=True, text=True) for _ in range(REPEATS)]
    return min(float(run.stdout) for run in runs)


def table() -> str:
    """A row for each dependency, in the order of ``pyproject.toml``."""
    rows = ["| dependency | for | MB | seconds of import |", "|---|---|---|---|"]
    for name in names():
        rows.append(f"| {name} | {WHY[name]} | {megabytes(name):.1f} | {seconds(name):.2f} |")
    return "\n".join(rows)


if __name__ == "__main__":
    print(table())
