"""tfzoo report FOLDER...: write the report of a sweep."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tfzoo.base.terminal import print_result, relative_path
from tfzoo.commands.argument_parser import CommandParser
from tfzoo.errors import TfzooError

if TYPE_CHECKING:
    from tfzoo.sweep.judge.verdicts import Verdicts

EPILOG = """\
Files written into the first folder: report.html (one page, opens offline), report.md (its text
and tables), runs.csv (one row per run). Several folders of the same sweep, such as other seeds from
another machine, are merged; if the others have other seeds, the report says which verdicts held.

  tfzoo report runs/position
  tfzoo report runs/position runs/position_again
  tfzoo report runs/position /elsewhere/position --metric test/long/exact_match
"""


def make_parser() -> CommandParser:
    """The arguments of the command."""
    parser = CommandParser(
        "report",
        "Write the report of a sweep: means, differences with confidence intervals, plots.",
        EPILOG,
    )
    parser.add_argument(
        "folders", nargs="+", metavar="FOLDER", help="of a sweep, which need not be finished"
    )
    parser.add_argument(
        "--metric",
        metavar="NAME",
        help="compare by this column of runs.csv instead of the sweep's metrics",
    )
    return parser


def run(given: Namespace) -> int:
    """Compare, print the verdicts, and write the report."""
    from tfzoo.sweep.report import save
    from tfzoo.sweep.report.answer import answer
    from tfzoo.sweep.report.facts import quote
    from tfzoo.sweep.report.results import gather
    from tfzoo.sweep.report.tables import repeats

    results = gather(given.folders, given.metric)
    for line in answer(results):
        print_result(line)
    if line := quote(results):
        print_result(line)
    for verdicts in results.verdicts:
        for line in lines(verdicts):
            print_result(line)
    for metric, pairs in results.dependences.items():
        for pair in pairs:
            print_result(f"{metric}: {pair.sentence}")
    for found in repeats(results):
        print_result(f"again: {found.caption.removesuffix('.')}")
        for name, first, again, p, outcome in found.lines:
            shown = f"first {first}, again {again} ({p})"
            print_result(f"  {name}: {outcome}: {shown}")
    try:
        paths = save(results)
    except OSError as error:
        raise TfzooError(
            f"cannot write the report into {given.folders[0]}: {error.strerror or error}"
        ) from None
    for path in paths:
        print_result(relative_path(path))
    return 0


def lines(verdicts: Verdicts) -> Iterator[str]:
    """What is printed of the verdicts by one metric."""
    yield f"{verdicts.metric}, {'lower' if verdicts.mode == 'min' else 'higher'} is better"
    for one in verdicts.axes:
        if one.verdict != "baseline":
            yield "; ".join([f"  {one.sentence}", *one.notes])
    yield from (f"  {one.sentence}" for one in verdicts.diverged)
    if verdicts.smallest:
        yield f"  {verdicts.smallest}"
    yield from (f"  note: {note}" for note in verdicts.notes)
