"""The first lines of a report: the question, what may be kept of each axis, what was left out,
and how to go on.
"""

import shlex
from argparse import ArgumentParser
from collections import Counter

from tfzoo.sweep.judge.effects import NO_BETTER
from tfzoo.sweep.judge.sequential import FIRST
from tfzoo.sweep.judge.verdicts import Judged
from tfzoo.sweep.report.results import Results
from tfzoo.sweep.report.sections import INCOMPLETE


def answer(results: Results) -> list[str]:
    """One line for the question, one for each axis by the first metric, one for what was left out,
    and one for what to do next.
    """
    judged = results.verdicts[0]
    axes = results.plan.axes
    values = "; ".join(f"{results.axis_name(axis)} ({', '.join(axes[axis])})" for axis in axes)
    lower = "lower" if judged.mode == "min" else "higher"
    seeds = max((one.seeds for one in judged.cells), default=0)
    count = f"{seeds} seed{'s' * (seeds != 1)}"
    return [
        f"{values}: which has the {lower} {judged.metric}, with {count} a cell?",
        *(choice(results, axis) for axis in axes),
        left_out(results),
        go_on(results),
    ]


def choice(results: Results, axis: str) -> str:
    """``norm: take rms: better than layer by 0.12 (...)``, or that the baseline may be kept."""
    judged = results.verdicts[0]
    base, name = results.plan.baseline[axis], results.axis_name(axis)
    if all(row["status"] != "completed" for row in results.rows):
        return f"{name}: nothing can be said, for no run has completed and learnt something"
    values = [one for one in judged.axes if axis in one.labels and one.verdict != "baseline"]
    by_verdict: dict[str, list[Judged]] = {}
    for one in values:
        by_verdict.setdefault(one.verdict, []).append(one)
    said = f"{name}: keep {base}: nothing is known to be better"
    if same := by_verdict.get("equivalent"):
        margin = judged.design.margin
        within = margin.describe(base) if margin else ""
        said = f"{name}: keep {base}, or take {listed(axis, same)}: equivalent within {within}"
    if better := by_verdict.get("better"):
        best = max(better, key=lambda one: abs(one.difference or 0.0))
        said = f"{name}: take {best.labels[axis]}, which is {best.sentence.partition(': ')[2]}"
        if others := [one for one in better if one is not best]:
            said += f"; also better: {listed(axis, others)}"
    for verdict in ("worse", "not yet known", "not judged"):
        if verdict in by_verdict:
            said += f"; {verdict}: {listed(axis, by_verdict[verdict])}"
    return said


def listed(axis: str, values: list[Judged]) -> str:
    """The labels of these values, with what is said of hints and of runs on which one depends."""
    return ", ".join(
        one.labels[axis]
        + " (a hint)" * one.is_hint
        + f" (it depends on the {one.diverged})" * one.depends
        for one in values
    )


def left_out(results: Results) -> str:
    """How many runs ended, and whether those that did not, or learnt nothing, change the answer."""
    judged = results.verdicts[0]
    every = [*judged.axes, *(judged.cells if judged.is_grid else ())]
    every = [one for one in every if one.verdict != "baseline"]
    statuses = Counter(row["status"] for row in results.rows)
    refused = statuses.pop("refused", 0)
    said = f"{statuses['completed']} of {statuses.total()} completed"
    for status in INCOMPLETE:
        said += f", {statuses[status]} {status}" * bool(statuses[status])
    said += f"; {refused} cell{'s' * (refused != 1)} refused" * bool(refused)
    if not statuses["completed"] and not statuses["missing"]:
        said += "; nothing was learnt"
    elif what := " or ".join(status for status in NO_BETTER if statuses[status]):
        depend = ", ".join(results.title(one) for one in every if one.depends)
        verdict = f"the verdict on {depend} depends" if depend else "no verdict depends"
        said += f"; {verdict} on those that {what}"
    if waiting := sum(bool(one.why_open) for one in every):
        why = "wait for what failed or is not finished"
        if judged.design.earlier:
            grown = judged.design.grown(len(results.plan.seeds))
            why = f"have no verdict, because the sweep {grown}"
        said += f"; {waiting} of {len(every)} comparisons {why}"
    return said


def go_on(results: Results) -> str:
    """What a larger sample would show, and the command that goes on."""
    judged, command = results.verdicts[0], results.folder.command
    statuses = {row["status"] for row in results.rows}
    smallest = f"{judged.smallest}. " if judged.smallest else ""
    if "missing" in statuses:
        return f"{smallest}To go on: {command}"
    if statuses == {"refused"}:
        return "every cell is refused: vary other parts"
    learnt = "completed" in statuses or statuses <= {"failed", "refused"}
    hint = "no run learnt anything: more steps, or another learning rate"
    if "failed" in statuses:
        return f"{smallest if learnt else hint + '. '}To go on: {command} --retry failed"
    if not learnt:
        return hint
    seeds, last = results.plan.seeds, max(results.plan.seeds)
    if later := [look for look in (*judged.design.looks, FIRST) if look > len(seeds)]:
        every = ",".join(map(str, [*seeds, *range(last + 1, last + 1 + later[0] - len(seeds))]))
        return (
            f"{smallest}To go on to {later[0]} seeds: {without(command, 'seeds')} --seeds {every}"
        )
    others = f"{last + 1}-{last + len(seeds)}"
    again = shlex.join(["--seeds", others, "--run", f"{results.folder.path}_seeds_{others}"])
    return f"{smallest}To repeat it: {without(command, 'seeds', 'run')} {again}"


def without(command: str, *options: str) -> str:
    """A command without these options and their values."""
    parser = ArgumentParser(add_help=False, allow_abbrev=False)
    for name in options:
        parser.add_argument(f"--{name}")
    return shlex.join(parser.parse_known_args(shlex.split(command))[1])
