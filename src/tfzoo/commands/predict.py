"""tfzoo predict RUN: write a trained run's predictions for its test sets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tfzoo.commands.lines import cell
from tfzoo.errors import TfzooError, UnknownName
from tfzoo.runs import checkpoints
from tfzoo.terminal import notify, relative_path
from tfzoo.training.evaluation import open_run

TEXT = """\
Write what the run says of each test set of its recipe to predictions/<name>.tsv of the run's folder, a row for each item in its order:
text, prediction, what would have been right, and how sure the model is. The first row names the columns.

  --format jsonl         one JSON object a line instead, texts to the letter; in .tsv a tab or line break inside a text becomes a space
  --data.X, --search.X   differ from the recipe, such as --search.beam 5 of a translator"""
FORMATS = ("tsv", "jsonl")


def run(args: list[str]) -> int:
    """Write a file for each test set."""
    trained = open_run("predict", args, TEXT, options=("format",))
    if trained is None:
        return 0
    form = trained.own["format"] or "tsv"
    if form not in FORMATS:
        raise UnknownName("format", form, FORMATS)
    folder = checkpoints.folder_of(trained.path)
    if folder is None:
        raise TfzooError(
            f"{trained.path} lies in no run's folder; use tfzoo {trained.task.command} {trained.path} FILE"
        )
    data = trained.data()
    if not data.test_names:
        raise TfzooError("predict: the run's data has no test set")
    (folder / "predictions").mkdir(exist_ok=True)
    files = {}
    for name in data.test_names:
        path = folder / "predictions" / f"{name}.{form}"
        rows = trained.task.predictions(data, name)
        write(path, rows)
        files[name] = str(path)
        notify(f"{name}: {len(rows):,} rows in {relative_path(path)}")
    trained.record("predict", {"files": files})
    return 0


def write(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Rows as the file's ending says."""
    with path.open("w", encoding="utf-8", newline="\n") as stream:
        if path.suffix == ".jsonl":
            stream.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
            return
        stream.writelines("\t".join(row) + "\n" for row in rows[:1])
        stream.writelines("\t".join(map(cell, row.values())) + "\n" for row in rows)
