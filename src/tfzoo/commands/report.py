"""tfzoo report FOLDER [AGAIN]: write the report of a sweep."""

from __future__ import annotations

from argparse import Namespace

from tfzoo.commands.argument_parser import CommandParser
from tfzoo.errors import TfzooError

EPILOG = """\
Files written into the first folder: report.html (one page, opens offline), report.md (its text
and tables), runs.csv (one row per run). With a second folder, in which the sweep was repeated with
other seeds, the report says which verdicts held.

  tfzoo report runs/position
  tfzoo report runs/position runs/position_again
  tfzoo report runs/position --metric test/long/exact_match
"""


def make_parser() -> CommandParser:
    """The arguments of the command."""
    parser = CommandParser(
        "report",
        "Write the report of a sweep: means, differences with confidence intervals, plots.",
        EPILOG,
    )
    parser.add_argument("folder", metavar="FOLDER", help="of a sweep, which need not be finished")
    parser.add_argument("again", nargs="?", metavar="AGAIN", help="the folder of its repeat")
    parser.add_argument(
        "--metric",
        metavar="NAME",
        help="compare by this column of runs.csv instead of the sweep's metrics",
    )
    return parser


def run(given: Namespace) -> int:
    """Compare, print the answer and the sentences of the report, and write it."""
    from tfzoo.sweep.report.files import publish
    from tfzoo.sweep.report.results import gather

    results = gather(given.folder, given.metric, given.again)
    try:
        publish(results)
    except OSError as error:
        raise TfzooError(
            f"cannot write the report into {given.folder}: {error.strerror or error}"
        ) from None
    return 0
