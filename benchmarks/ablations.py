"""The sections of docs/ablations.md that the site's build adds (``nox -s docs``), and the tables of
differences in that page and in docs/ideas/, from recipes/ablations/*.yaml and the .csv files beside
them.

Replace the runs of one sweep, then write the tables:

    tfzoo sweep ablations/norm --jobs 2 && python benchmarks/ablations.py runs/norm

Replace the runs of its repeat with other seeds:

    tfzoo sweep ablations/norm --seeds 6-10 --jobs 2 --run runs/norm_again
    python benchmarks/ablations.py runs/norm_again

Write the tables only:

    python benchmarks/ablations.py
"""

import argparse
import csv
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import get_args

from tfzoo.base.values import readable
from tfzoo.base.yaml_files import read_yaml
from tfzoo.sweep.judge.design import Design, parse_margin
from tfzoo.sweep.judge.effects import axis_name
from tfzoo.sweep.judge.sentences import format_p
from tfzoo.sweep.judge.verdicts import (
    Judged,
    Repeat,
    Repetition,
    interactions,
    judge,
    repeats,
    summary,
)
from tfzoo.sweep.plan.sweep_file import Metric, Plan, parse
from tfzoo.sweep.report.sections import NONE, difference, format_difference, format_mean, sign
from tfzoo.sweep.run.runs_csv import FILE, Row

ROOT = Path(__file__).parent.parent
SWEEPS = ROOT / "recipes/ablations"
PAGE = ROOT / "docs/ablations.md"
IDEAS = ROOT / "docs/ideas"
DIFFERENCES = re.compile(
    r"^(\| \[(\w+)\]\((?:\.\./ablations\.md)?#\2\) \| `(\S+)` against \*\*(.+)\*\* \|"
    r"\n\|---\|---\|\n)"
    r"((?:\|.*\n)+)",
    re.MULTILINE,
)
"""A table of differences to the baseline of a sweep, by one metric: its first column names them."""


def sections() -> str:
    """How many verdicts held, and a section for each sweep."""
    files = sorted(SWEEPS.glob("*.yaml"))
    return "\n".join([repeated(files), "", *(line for one in files for line in section(one))])


def repeated(files: list[Path]) -> str:
    """How many verdicts of all sweeps held in their repeats, by the metric of each sweep."""
    outcomes: Counter[str] = Counter()
    count = 0
    for file in files:
        plan, rows = parse(file, read_yaml(file)), runs_of(file.with_suffix(".csv"))
        found = second_runs(plan, file, rows, plan.metric)
        if found is not None:
            outcomes.update(one.outcome for one in found)
            count += 1
    became = ", ".join(f"{outcomes[outcome]} {outcome}" for outcome in get_args(Repetition))
    return (
        f"{count} of {len(files)} sweeps were run again with other seeds. Of the "
        f"{outcomes.total()} verdicts of their first runs, each by the metric of its sweep: "
        f"{became}."
    )


def section(file: Path) -> Iterator[str]:
    """One sweep: its claim, what was found, and a table."""
    plan = parse(file, read_yaml(file))
    rows = runs_of(file.with_suffix(".csv"))
    axes = {axis: [*labels] for axis, labels in plan.axes.items()}
    metrics = plan.metrics
    verdicts = [
        judge(rows, axes, plan.baseline, metric.name, metric.mode, design(metric))
        for metric in metrics
    ]
    yield from (
        f"## {file.stem}",
        "",
        f"**Claim.** {plan.claim}",
        "",
        f"**Found.** {found(file)}",
        "",
    )
    steps = steps_of(rows)
    yield (
        f"`tfzoo sweep ablations/{file.stem} --jobs 2`: {len(rows)} runs of {steps:,.0f} steps of "
        f"{setting(file)}."
    )
    yield ""
    yield from table(plan, rows, metrics, [one.cells for one in verdicts])
    yield from ("", f"**Smallest effect.** {plan.metric.name}: {verdicts[0].smallest}.", "")
    for one in verdicts[0].diverged:
        yield from (f"**Diverged.** {capital(one.sentence)}.", "")
    for one in interactions(rows, axes, plan.baseline, plan.metric.name):
        yield from (f"**Interaction.** {capital(one.sentence)}.", "")
    yield from again(plan, file, rows)


def design(metric: Metric) -> Design:
    """As the sweep file declares it."""
    return Design(margin=parse_margin(metric.margin))


def setting(file: Path) -> str:
    """The recipe, and what the sweep overrides of model, data set and optimiser."""
    made = read_yaml(file)
    changed = [
        f"{key} {value}"
        for key, value in made.get("overrides", {}).items()
        if key.startswith(("model.", "data.dataset.", "data.max_tokens", "optim."))
        and not key.endswith((".val", ".test", ".long", ".longer", ".each"))
    ]
    if tune := made.get("tune"):
        changed.append(f"{tune['key']} the best of {', '.join(map(str, tune['values']))}")
    return f"`{made['recipe']}`" + (f" with {', '.join(changed)}" if changed else "")


def capital(text: str) -> str:
    """The text with its first letter in upper case."""
    return text[:1].upper() + text[1:]


def again(plan: Plan, file: Path, rows: list[Row]) -> Iterator[str]:
    """What repeats say of the verdicts, and a table of the sweep's metric for each."""
    own = second_runs(plan, file, rows, plan.metric)
    if own is None:
        yield from ("**Again.** Not repeated with other seeds yet.", "")
        return
    every = {one.name: second_runs(plan, file, rows, one) for one in plan.metrics}
    said = "; ".join(f"{name}: {summary(one or [])}" for name, one in every.items())
    yield from (f"**Again.** {said}.", "")
    if own:
        yield f"| {plan.metric.name}: difference | first | again | p | |"
        yield "|---|---|---|---|---|"
        for one in own:
            p = NONE if one.p is None else format_p(one.p)
            both = (difference(one.first), difference(one.again))
            fields = [row_name(plan, one.first.labels), *both, p, one.outcome]
            yield f"| {' | '.join(fields)} |"
        yield ""


def row_name(plan: Plan, labels: Mapping[str, str]) -> str:
    """``batch, small`` for a cell, ``norm batch, on average`` for a main effect."""
    if len(labels) == len(plan.axes):
        return ", ".join(labels.values())
    ((axis, label),) = labels.items()
    return f"{axis_name(plan.axes, axis)} {label}, on average"


def second_runs(plan: Plan, file: Path, rows: list[Row], metric: Metric) -> list[Repeat] | None:
    """The repeat of a sweep, which is beside it as NAME.again.csv; None if there is none."""
    axes = {axis: [*labels] for axis, labels in plan.axes.items()}
    path = file.with_suffix(".again.csv")
    if not path.exists():
        return None
    first, second = (
        judge(table, axes, plan.baseline, metric.name, metric.mode, design(metric))
        for table in (rows, runs_of(path))
    )
    return repeats(first, second)


def runs_of(file: Path) -> list[Row]:
    """The runs in a CSV, with all values as text, which ``judge`` takes."""
    with file.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def steps_of(rows: list[Row]) -> float:
    """The steps of the median run."""
    return median(float(row["steps"]) for row in rows if row["steps"])


def table(
    plan: Plan, rows: list[Row], metrics: list[Metric], judged: list[list[Judged]]
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
                median(float(row[key]) for row in runs)
                for key in ("parameters", "tokens_per_second", "peak_memory")
            ]
            if runs
            else [0, 0, 0]
        )
        fields = [f"**{label}**" if baseline else label for label in labels.values()]
        fields += [
            f"{format_mean(one.mean, one.low, one.high)} {sign(one)}".strip() for one in cells
        ]
        fields += [f"{cost[0]:,.0f}", f"{cost[1]:,.0f}", readable(cost[2])]
        yield f"| {' | '.join(fields)} |"


def with_differences(text: str) -> str:
    """The text with the second columns of its tables of differences as the runs say."""
    return DIFFERENCES.sub(_differences, text)


def _differences(match: re.Match[str]) -> str:
    head, sweep, metric, base, lines = match.groups()
    file = SWEEPS / f"{sweep}.yaml"
    plan = parse(file, read_yaml(file))
    axes = {axis: [*labels] for axis, labels in plan.axes.items()}
    modes = {one.name: one.mode for one in plan.metrics}
    designs = {one.name: design(one) for one in plan.metrics}
    verdicts = judge(
        runs_of(file.with_suffix(".csv")),
        axes,
        plan.baseline,
        metric,
        modes.get(metric, "min"),
        designs.get(metric, Design()),
    )
    cells: dict[str, str] = {}
    for one in (*verdicts.axes, *verdicts.cells):
        text, ends = format_difference(one.difference, one.difference_low, one.difference_high)
        said = f"{text} ({ends})" if ends else text
        # A metric that the sweep does not judge is neither better nor worse.
        cells[", ".join(one.labels.values())] = (
            f"{said}, {'a hint: ' * one.is_hint}{one.verdict}" if metric in modes else said
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


def csv_name(folder: str) -> str:
    """``norm.csv`` for the folder ``norm``, ``norm.again.csv`` for ``norm_again`` or
    ``again_norm``, ``norm.longer.csv`` for ``norm_longer``.
    """
    names = sorted((file.stem for file in SWEEPS.glob("*.yaml")), key=len, reverse=True)
    if folder in names:
        return f"{folder}.csv"
    for name in names:  # again_embedding_scale is no repeat of scale
        for rest in (folder.removeprefix(f"{name}_"), folder.removesuffix(f"_{name}")):
            if rest != folder:
                return f"{name}.{rest}.csv"
    raise SystemExit(
        f"{folder} is not named like a packaged sweep, NAME, or its repeat, NAME_again"
    )


def main() -> None:
    """Copy the runs of the given folders, then write the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="*", type=Path, help="of packaged sweeps that were run")
    for folder in parser.parse_args().folders:
        shutil.copyfile(folder / FILE, SWEEPS / csv_name(folder.name))
    for page in (PAGE, *IDEAS.glob("*.md")):
        page.write_text(with_differences(page.read_text("utf-8")), "utf-8")
    print(PAGE, IDEAS)


if __name__ == "__main__":
    main()
