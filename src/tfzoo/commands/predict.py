"""tfzoo predict RUN: write a trained run's predictions for its test sets."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tfzoo.base.terminal import notify, relative_path, tsv_cell
from tfzoo.commands.argument_parser import CommandParser
from tfzoo.errors import TfzooError, UnknownName
from tfzoo.runs.files import replacing
from tfzoo.training.device import find_device
from tfzoo.training.evaluation import check_test_sets, load_trained

TEXT = """\
Write the predictions for each test set to predictions/<name>.tsv in the run's folder, one row per
item in the order of the test set: text, prediction, reference, and the score or probability. The
first row has the names of the columns."""
EPILOG = "--data.X and --search.X override the recipe, such as --search.beam 5 of a translator."
FORMATS = ("tsv", "jsonl")


def make_parser() -> CommandParser:
    """The arguments of the command."""
    parser = CommandParser("predict", TEXT, EPILOG)
    parser.add_run()
    parser.add_device()
    parser.add_argument(
        "--format",
        default=FORMATS[0],
        metavar="F",
        help="tsv, in which tabs and line breaks within a text become spaces, or jsonl: one JSON "
        "object per line instead, with texts unchanged (default: %(default)s)",
    )
    parser.takes_recipe("data", "search")
    return parser


def run(given: Namespace) -> int:
    """Write a file for each test set."""
    trained = load_trained(given)
    if given.format not in FORMATS:
        raise UnknownName("format", given.format, FORMATS)
    path, folder = trained.run.path, trained.run.folder
    if folder is None:
        raise TfzooError(
            f"{path} lies in no run's folder; use tfzoo {trained.task.command} {path} FILE"
        )
    trained.task.to(find_device(given.device))
    data = trained.data()
    check_test_sets(trained.command, data)
    (folder / "predictions").mkdir(exist_ok=True)
    files = {}
    for name in data.test_names:
        path = folder / "predictions" / f"{name}.{given.format}"
        rows = trained.task.predictions(data, name)
        write(path, rows)
        files[name] = str(path)
        notify(f"{name}: {len(rows):,} rows in {relative_path(path)}")
    trained.record({"files": files})
    return 0


def write(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows as JSON lines or as tab-separated text, by the suffix of the path."""
    with (
        replacing(path) as temporary,
        temporary.open("w", encoding="utf-8", newline="\n") as stream,
    ):
        if path.suffix == ".jsonl":
            stream.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
            return
        stream.writelines("\t".join(row) + "\n" for row in rows[:1])
        stream.writelines("\t".join(map(tsv_cell, row.values())) + "\n" for row in rows)
