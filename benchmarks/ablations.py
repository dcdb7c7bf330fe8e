"""Write docs/ablations.md, and the tables of docs/ideas/, from recipes/ablations/*.yaml and the
.csv files beside them.

Replace the runs of one sweep, then write the page:

    tfzoo sweep ablations/norm --jobs 2 && python benchmarks/ablations.py runs/norm

Write the pages only:

    python benchmarks/ablations.py
"""

from __future__ import annotations

import argparse
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from tfzoo.config.loader import read_yaml
from tfzoo.sweep.judge import Judged, judge
from tfzoo.sweep.plan import Metric, Plan, parse
from tfzoo.sweep.report.heat import SIGNS
from tfzoo.sweep.report.numbers import format_interval, format_mean, format_memory
from tfzoo.sweep.runs import FILE, read_csv

ROOT = Path(__file__).parent.parent
SWEEPS = ROOT / "recipes/ablations"
PAGE = ROOT / "docs/ablations.md"
IDEAS = ROOT / "docs/ideas"
DIFFERENCES = re.compile(
    r"^(\| \[(\w+)\]\(\.\./ablations\.md#\2\) \| `(\S+)` against \*\*(.+)\*\* \|\n\|---\|---\|\n)"
    r"((?:\|.*\n)+)",
    re.MULTILINE,
)
"""A table of differences to the baseline of a sweep, by one metric: its first column names them."""
HEAD = """\
# What the packaged sweeps showed

Each sweep tests a published claim on generated data, with small models and short trainings. What
holds here need not hold at scale, and what does not hold here may. All were run on 2 cores (AMD
EPYC), one or two at a time with one thread each; the runs are in the `.csv` files beside the sweep
files, from which `python benchmarks/ablations.py` generates this page.

Mean over the seeds ± half the width of its 95 % confidence interval; ▲ better and ▼ worse than the
baseline, which is bold, after Holm's correction ([how a sweep is judged](judging.md)). Tokens per
second and memory are medians. Other work shared the machine, more at one time than at another, so
that the speeds do not compare the parts.
"""


def page() -> str:
    """The text of the page."""
    return "\n".join(
        [HEAD, *(line for file in sorted(SWEEPS.glob("*.yaml")) for line in section(file))]
    )


def section(file: Path) -> Iterator[str]:
    """One sweep: its claim, what was found, and a table."""
    plan = parse(file, read_yaml(file))
    rows = read_csv(file.with_suffix(".csv"))
    axes = {axis: [*labels] for axis, labels in plan.axes.items()}
    metrics = [plan.metric, *plan.also]
    judged = [
        judge(rows, axes, plan.baseline, metric.name, metric.mode).cells for metric in metrics
    ]
    yield from (
        f"## {file.stem}",
        "",
        f"**Claim.** {plan.claim}",
        "",
        f"**Found.** {found(file)}",
        "",
    )
    steps = median(row["steps"] for row in rows if row["steps"])
    yield f"`tfzoo sweep ablations/{file.stem} --jobs 2`: {len(rows)} runs of {steps:,.0f} steps."
    yield ""
    yield from table(plan, rows, metrics, judged)
    yield ""


def table(
    plan: Plan, rows: list[dict[str, Any]], metrics: list[Metric], judged: list[list[Judged]]
) -> Iterator[str]:
    """A line per cell."""
    axes = [axis.rpartition(".")[2] for axis in plan.axes]
    scores = [f"{one.name} {'↓' if one.mode == 'min' else '↑'}" for one in metrics]
    yield f"| {' | '.join([*axes, *scores, 'parameters', 'tokens/s', 'memory'])} |"
    yield f"|{'---|' * len(axes)}{'---:|' * (len(metrics) + 3)}"
    for cells in zip(*judged, strict=True):
        labels, baseline = cells[0].labels, cells[0].verdict == "baseline"
        runs = [
            row
            for row in rows
            if row["status"] == "completed"
            and all(row[axis] == label for axis, label in labels.items())
        ]
        cost = (
            [
                median(row[key] for row in runs)
                for key in ("parameters", "tokens_per_second", "peak_memory")
            ]
            if runs
            else [0, 0, 0]
        )
        fields = [f"**{label}**" if baseline else label for label in labels.values()]
        fields += [
            f"{format_mean(one.mean, one.low, one.high)} {SIGNS.get(one.verdict, '')}".strip()
            for one in cells
        ]
        fields += [f"{cost[0]:,.0f}", f"{cost[1]:,.0f}", format_memory(cost[2])]
        yield f"| {' | '.join(fields)} |"


def with_differences(text: str) -> str:
    """The text with the second columns of its tables of differences as the runs say."""
    return DIFFERENCES.sub(_differences, text)


def _differences(match: re.Match[str]) -> str:
    head, sweep, metric, base, lines = match.groups()
    file = SWEEPS / f"{sweep}.yaml"
    plan = parse(file, read_yaml(file))
    axes = {axis: [*labels] for axis, labels in plan.axes.items()}
    modes = {one.name: one.mode for one in (plan.metric, *plan.also)}
    verdicts = judge(
        read_csv(file.with_suffix(".csv")), axes, plan.baseline, metric, modes.get(metric, "min")
    )
    cells: dict[str, str] = {}
    for one in (*verdicts.axes, *verdicts.cells):
        said = format_interval(one.difference, one.difference_low, one.difference_high)
        # A metric that the sweep does not judge is neither better nor worse.
        cells[", ".join(one.labels.values())] = (
            f"{said}, {one.verdict}" if metric in modes else said
        )
    if cells.pop(base).rpartition(", ")[2] not in ("baseline", "–"):
        raise ValueError(f"{base} is not the baseline of {sweep}")
    names = [line.split(" | ")[0].removeprefix("| ") for line in lines.splitlines()]
    return head + "".join(f"| {name} | {cells[name]} |\n" for name in names)


def found(file: Path) -> str:
    """The text after ``Measured:`` in the head of a sweep file."""
    head = "\n".join(
        line.lstrip("# ") for line in file.read_text("utf-8").splitlines() if line.startswith("#")
    )
    return " ".join(re.split(r"^Measured: ", head, flags=re.MULTILINE)[1].split())


def main() -> None:
    """Copy the runs of the given folders, then write the pages."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="*", type=Path, help="of packaged sweeps that were run")
    for folder in parser.parse_args().folders:
        shutil.copyfile(folder / FILE, SWEEPS / f"{folder.name}.csv")
    PAGE.write_text(page(), "utf-8")
    for idea in IDEAS.glob("*.md"):
        idea.write_text(with_differences(idea.read_text("utf-8")), "utf-8")
    print(PAGE, IDEAS)


if __name__ == "__main__":
    main()
