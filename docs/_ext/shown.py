"""What the packaged sweeps showed of a part, from their committed runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from benchmarks.ablations import SWEEPS, runs_of
from tfzoo.base.yaml_files import read_yaml
from tfzoo.sweep.judge.verdicts import Verdicts, judge
from tfzoo.sweep.plan.sweep_file import Plan, parse


@dataclass(frozen=True)
class Sweep:
    """A packaged sweep and its verdicts by its first metric."""

    name: str
    plan: Plan
    verdicts: Verdicts


@cache
def sweeps() -> tuple[Sweep, ...]:
    """All packaged sweeps."""
    found = []
    for file in sorted(SWEEPS.glob("*.yaml")):
        plan = parse(file, read_yaml(file))
        axes = {axis: [*labels] for axis, labels in plan.axes.items()}
        rows = runs_of(file.with_suffix(".csv"))
        verdicts = judge(rows, axes, plan.baseline, plan.metric.name, plan.metric.mode)
        found.append(Sweep(file.stem, plan, verdicts))
    return tuple(found)


def of_part(kind: str, name: str) -> Iterator[str]:
    """A paragraph for each sweep that varies this part."""
    for sweep in sweeps():
        for axis, labels in sweep.plan.axes.items():
            for label, settings in labels.items():
                if names(settings, kind) == {name}:
                    yield from (paragraph(sweep, axis, label), "")


def names(settings: Mapping[str, Any], kind: str) -> set[str]:
    """The parts of a kind that a value of an axis names, such as ``{"model.norm": "rms"}``."""
    found = [spec for key, spec in settings.items() if key.rpartition(".")[2] == kind]
    return {spec["name"] if isinstance(spec, Mapping) else spec for spec in found}


def paragraph(sweep: Sweep, axis: str, label: str) -> str:
    """The verdict on one value of an axis."""
    link = f"[{sweep.name}](../../ablations.md#{sweep.name})"
    verdict = next((one for one in sweep.verdicts.axes if one.labels == {axis: label}), None)
    metric = sweep.plan.metric.name
    better = "lower is better" if sweep.plan.metric.mode == "min" else "higher is better"
    if verdict is None or verdict.verdict == "baseline":
        return f"- {link}: `{label}` is the baseline."
    return f"- {link}, `{metric}` ({better}): {verdict.sentence}."
