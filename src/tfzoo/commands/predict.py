"""tfzoo predict RUN: write a trained run's predictions for its test sets."""

from __future__ import annotations

from tfzoo.commands.output import near, say
from tfzoo.commands.trained import open_run
from tfzoo.errors import TfzooError
from tfzoo.runs import checkpoints

TEXT = """\
Translate each test set of the run's recipe into predictions/<name>.txt of the run's folder, one line per line.

  --data.X, --search.X   differ from the recipe, such as --search.beam 5"""


def run(args: list[str]) -> int:
    """Write a file for each test set."""
    trained = open_run("predict", args, TEXT)
    if trained is None:
        return 0
    folder = checkpoints.folder_of(trained.path)
    if folder is None:
        raise TfzooError(f"{trained.path} lies in no run's folder; use tfzoo translate {trained.path} FILE")
    data = trained.data()
    (folder / "predictions").mkdir(exist_ok=True)
    files = {}
    for name in data.test_names:
        path = folder / "predictions" / f"{name}.txt"
        lines = trained.task.translate([source for source, _ in data.splits[name]])
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        files[name] = str(path)
        say(f"{name}: {len(lines):,} lines in {near(path)}")
    trained.record("predict", {"files": files})
    return 0
