"""tfzoo sweep and tfzoo report: an ablation."""

from argparse import Namespace

from tfzoo.base.terminal import print_result
from tfzoo.commands.argument_parser import CommandParser
from tfzoo.errors import TfzooError

ENGINES = ("local", "ray", "slurm")
SWEEP_HELP = """\
A file names a recipe, what is varied, and the score that is compared:

  recipe: translation/numbers
  overrides: {trainer.max_steps: 300}
  axes: {model.norm: [layer, rms], model.position: [sinusoidal, rotary]}
  seeds: [1, 2, 3]
  metric: {name: val/loss, mode: min}

  tfzoo sweep small.yaml --dry-run
  tfzoo sweep small.yaml --jobs 2
  tfzoo sweep small.yaml --jobs 2 --seeds 4-6 --run runs/small_again
"""


def run_sweep(given: Namespace) -> int:
    """Train all runs of a sweep that are missing, and report.

    Returns 0 if every cell has an answer, 1 if a run failed or nothing was learnt, 75 or 130 if a
    signal stopped it.
    """
    if given.jobs is not None and given.jobs < 1:
        raise TfzooError(f"--jobs {given.jobs}: at least 1")
    if given.cell is not None and (given.dry_run or given.jobs or given.engine != "local"):
        raise TfzooError(
            "--cell trains one run on this machine: remove --dry-run, --jobs and --engine"
        )
    from tfzoo.sweep.plan.load import load
    from tfzoo.sweep.start import check_folder, preview, start, start_one, sweep_folder

    retry, seeds = given.retry is not None, parse_seeds(given.seeds)
    plan = load(given.file, given.trust, seeds)
    folder = sweep_folder(plan, given.run, seeds)
    if given.dry_run:
        check_folder(plan, folder)
        print_result("\n".join(preview(plan, folder, given.jobs or 1, retry)))
        return 0
    if given.cell is not None:
        return start_one(plan, folder, given.command[1:], given.cell, retry)
    return start(plan, folder, given.command[1:], given.engine, given.jobs, retry)


def parse_seeds(text: str | None) -> list[int]:
    """The seeds that ``6-10`` or ``1,2,5-7`` lists; a number alone is how many, as in a sweep file:
    ``4`` is ``1-4``. Empty if there is no text.

    Raises:
        TfzooError: it is no such list.
    """
    if text is None:
        return []
    from tfzoo.sweep.judge.paired import MAX_SEEDS

    found: list[int] = []
    for part in [f"1-{text}"] if text.isdecimal() else text.split(","):
        first, dash, last = part.strip().partition("-")
        ends = [first, last if dash else first]
        if not all(end.isdecimal() for end in ends) or int(ends[0]) > int(ends[1]):
            raise TfzooError(f"--seeds {text}: how many, or numbers such as 6-10 or 1,2,5")
        if int(ends[1]) - int(ends[0]) >= MAX_SEEDS:
            raise TfzooError(f"--seeds {text}: at most {MAX_SEEDS} seeds")
        found += range(int(ends[0]), int(ends[1]) + 1)
    return found


def sweep_parser() -> CommandParser:
    """Return the parser of the command."""
    parser = CommandParser(
        "sweep",
        run_sweep,
        "Train every combination of a recipe's parts and report which part made a difference. "
        "The same command again trains what is missing.",
        SWEEP_HELP,
    )
    parser.add_argument(
        "file",
        metavar="FILE",
        help="a packaged sweep (tfzoo recipes lists them) or the path of a YAML file",
    )
    parser.add_argument(
        "--run", metavar="FOLDER", help="the folder of all runs; default runs/<the file's name>"
    )
    parser.add_argument(
        "--seeds",
        metavar="S",
        help="instead of the file's: how many, or 6-10 or 1,2,5; with --run to repeat a sweep",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        metavar="N",
        help="runs at a time; default 1, on a cluster as many as there is room for",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="print the cells, the refused ones, and an estimate of the time; train nothing",
    )
    parser.add_argument("--retry", choices=["failed"], help="repeat the runs that failed")
    parser.add_argument(
        "--trust",
        action="store_true",
        help="let the file name code, which then runs; needed at every start",
    )
    parser.add_argument(
        "--cell",
        type=int,
        metavar="I",
        help="train one run, by the number that --dry-run prints: for any scheduler",
    )
    parser.add_argument(
        "--engine",
        choices=ENGINES,
        default="local",
        help="processes on this machine, Ray tasks, or a SLURM array; default local",
    )
    return parser


REPORT_HELP = """\
Files written into the first folder: report.html (one page, opens offline), report.md (its text
and tables), runs.csv (one row per run). With a second folder, in which the sweep was repeated with
other seeds, the report says which verdicts held.

  tfzoo report runs/position
  tfzoo report runs/position runs/position_again
  tfzoo report runs/position --metric test/long/exact_match
"""


def report_parser() -> CommandParser:
    """The arguments of the command."""
    parser = CommandParser(
        "report",
        report,
        "Write the report of a sweep: means, differences with confidence intervals, plots.",
        REPORT_HELP,
    )
    parser.add_argument("folder", metavar="FOLDER", help="of a sweep, which need not be finished")
    parser.add_argument("again", nargs="?", metavar="AGAIN", help="the folder of its repeat")
    parser.add_argument(
        "--metric",
        metavar="NAME",
        help="compare by this column of runs.csv instead of the sweep's metrics",
    )
    return parser


def report(given: Namespace) -> int:
    """Compare, print the answer and the sentences of the report, and write it."""
    from tfzoo.sweep.report.files import publish
    from tfzoo.sweep.report.results import gather

    publish(gather(given.folder, given.metric, given.again))
    return 0
