"""tfzoo predict and tfzoo score: apply a trained run to text."""

import os
import shlex
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import Any, get_type_hints

from tfzoo.base.terminal import FORMATS, notify, progress, relative_path, row_line
from tfzoo.base.values import members
from tfzoo.commands.argument_parser import CommandParser
from tfzoo.config.config import descriptions
from tfzoo.data.table import FORMS, NoColumn, decoded, ending_of, read_lines, table
from tfzoo.errors import BadData, TfzooError
from tfzoo.learning.trained_run import TrainedRun
from tfzoo.training.evaluation import SETS, evaluate
from tfzoo.training.load import load

WRITTEN = ("lines", *FORMATS)
Example = tuple[str, str | None]
"""A text and its reference."""
PREDICT_HELP = """\
Apply a trained run to each line of text: translate it, name its class, continue it, as its task is.
`tfzoo predict RUN --help` has the options of the run's task."""
CHUNK = 20_000
"""The most lines that are held in memory, and sorted by length, at a time."""


def add_options(parser: CommandParser, task: Any) -> None:
    """Add the options of a task, :attr:`tfzoo.learning.lines.Lines.Options`."""
    about, texts = task.about, descriptions(task.Options)
    parser.epilog = (
        f"Written is {about}; an empty line for an empty one. Input is read to its end, or "
        f"{CHUNK:,} lines at a time, before the first answer; a terminal's line by line."
    )
    for name, hint in get_type_hints(task.Options).items():
        (kind,) = [one for one in members(hint) if one is not type(None)]
        default = getattr(task.Options, name)
        shown = "" if default is None else f" (default: {default})"
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            type=kind,
            default=default,
            metavar=name[0].upper() if kind is not str else "TEXT",
            help=f"{texts[name]}{shown}",
        )


def options_of(given: Namespace) -> dict[str, Any]:
    """The values of the task's options."""
    return {name: getattr(given, name) for name in vars(given.trained.task.Options())}


class PredictParser(CommandParser):
    """The arguments of the command, with those of the task of the run that it names first."""

    def parse(self, words: Sequence[str]) -> Namespace:
        if not words or words[0] in ("-h", "--help"):
            return super().parse(words)
        if words[0].startswith("-"):
            raise TfzooError("RUN comes first: tfzoo predict RUN [FILE] (tfzoo predict --help)")
        trained = TrainedRun(words[0])
        self.task = trained.task
        add_options(self, self.task)
        given = super().parse(words)
        given.trained = trained
        return given

    def similar(self, option: str) -> str:
        own = [f"--{name.replace('_', '-')}" for name in get_type_hints(self.task.Options)]
        said = f" Options of the task {self.task.entry.name}: {', '.join(own) or 'none'}"
        return super().similar(option) + said * option.startswith("-")


def predict(given: Namespace) -> int:
    """Apply a run to a file or to standard input."""
    check(given)
    process_lines(given, load_task(given.trained, given.device))
    return 0


def predict_parser() -> CommandParser:
    """The arguments of the command."""
    parser = PredictParser("predict", predict, PREDICT_HELP)
    parser.add_run()
    parser.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        help="lines of text, plain or .gz; or a table, .tsv, .csv, .jsonl or .parquet, with the "
        "columns of the training data; standard input when left out, or -",
    )
    parser.add_argument(
        "--max-tokens",
        type=int,
        default=4096,
        metavar="N",
        help="tokens of text in a batch (default: %(default)s)",
    )
    parser.add_argument(
        "--format",
        metavar="F",
        choices=WRITTEN,
        default="lines",
        help=f"{', '.join(WRITTEN)}: the answers alone; or with their texts, scores and references",
    )
    parser.add_device()
    return parser


def check(given: Namespace) -> None:
    """Check the arguments before the weights are read."""
    if os.environ.get("WORLD_SIZE", "1") != "1":
        raise TfzooError("predict runs in one process: start it without torchrun or srun")
    given.trained.task.Options(**options_of(given))
    if given.max_tokens < 1:
        raise TfzooError("--max-tokens must be at least 1")
    if given.file == "-":
        given.file = None
    if given.file and not os.path.isfile(given.file):  # pathlib raises where a name is too long
        piped = f"{shlex.join(['echo', given.file])} | tfzoo predict {given.run}"
        raise BadData(f"no file {given.file}. A text is piped in: {piped}")
    if not given.file and sys.stdin is None:
        raise BadData("standard input is closed: name a file")


def load_task(trained: TrainedRun, device: str | None) -> Any:
    """Load the task of a run, which is named first, on a device."""
    notify(f"checkpoint: {relative_path(trained.path)}")  # before imports that take seconds
    return load(trained, device=device)


def process_lines(given: Namespace, task: Any) -> None:
    """Read texts in chunks, apply the task to each, and write the results."""
    from tfzoo.data.batches import truncation

    done, truncated = [0], list[tuple[int, int]]()

    def count(lines: int) -> None:
        done[0] += lines
        show(f"{done[0]:,}")

    def note(rows: list[int], tokens: int) -> None:
        truncated.append((len(rows), tokens))

    interactive = not given.file and sys.stdin.isatty()  # then each line is a chunk
    examples = read(given, task)
    out = sys.stdout
    if isinstance(out, TextIOWrapper):
        out.reconfigure(encoding="utf-8")
    how = {**options_of(given), "max_tokens": given.max_tokens}
    columns: list[str] = []
    seen = interactive or out.isatty()
    with nullcontext(lambda text: None) if seen else progress("lines") as show:
        while chunk := list(islice(examples, 1 if interactive else CHUNK)):
            texts = [text for text, _ in chunk if text.strip()]
            answers = task.predict(texts, progress=count, on_truncated=note, **how)
            if given.format == "tsv" and not columns:
                columns = task.columns() + ["reference"] * (chunk[0][1] is not None)
                out.write("\t".join(columns) + "\n")
            for line in lines_of(task, chunk, iter(answers), given.format, columns):
                out.write(f"{line}\n")
            out.flush()
    if truncated:
        notify(truncation(sum(rows for rows, _ in truncated), truncated[-1][1]))


def read(given: Namespace, task: Any) -> Iterator[Example]:
    """The texts of a table, with references where it has them; or the lines of a file or of
    standard input.
    """
    path = Path(given.file) if given.file else None
    if path is None or ending_of(path.name) not in FORMS:
        lines = read_lines(path) if path else decoded(sys.stdin.buffer, "standard input")
        return ((line, None) for line in lines)
    data = task.Data(**given.trained.entry["recipe"].get("data") or {})
    form = replace(data.form, options=())
    for columns in (form.columns, form.columns[:1] * 2):
        rows = table(path, replace(form, columns=columns))
        with suppress(NoColumn):  # it has no references
            next(iter(rows), None)
            break
    has_references = columns[0] != columns[1]
    return ((text, reference if has_references else None) for text, reference in rows)


def lines_of(
    task: Any, chunk: Sequence[Example], answers: Iterator[Any], form: str, columns: Sequence[str]
) -> Iterator[str]:
    """What is written of the texts of a chunk, in their order; of an empty one an empty line."""
    from tfzoo.learning.lines import several

    for text, reference in chunk:
        for answer in several(next(answers)) if text.strip() else [None]:
            if form != "lines":
                yield row_line(task.row(text, answer, reference), form, columns)
            else:
                line = "" if answer is None else task.output_line(answer)
                yield line.replace("\r", "\\r").replace("\n", "\\n")


SCORE_HELP = """\
Score a run's best checkpoint (or the checkpoint given) on each test set of its recipe, with
intervals of 95 % over its texts. The task's pictures of test sets, such as what is confused with
what, are saved in the run's folder. `validation` instead takes the scores alone."""
OVERRIDES = """\
--data.X, --search.X and --trainer.X override the recipe, such as --search.beam 5 of a translator,
or --data.test FILE.
"""


def score_parser() -> CommandParser:
    """The arguments of the command."""
    parser = CommandParser("score", score, SCORE_HELP, OVERRIDES)
    parser.add_run()
    parser.add_argument(
        "data",
        metavar="DATA",
        nargs="?",
        choices=[*SETS],
        default="test",
        help=f"{' or '.join(SETS)} (default: test)",
    )
    parser.add_argument(
        "--predictions",
        metavar="F",
        choices=FORMATS,
        help=f"also write {' or '.join(FORMATS)}: text, prediction and reference of each test set, "
        "one row per item in its order, to predictions/<name>.<F> in the run's folder",
    )
    parser.add_device(default="that of the training")
    parser.takes_recipe("RUN [DATA]")
    return parser


def score(given: Namespace) -> int:
    """Score, and write the predictions."""
    return evaluate(
        given.run,
        given.data,
        given.overrides,
        predictions=given.predictions,
        device=given.device,
        trust=given.trust,
        command=given.command,
    )
