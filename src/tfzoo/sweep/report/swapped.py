"""What a part that was swapped in a trained model costs at once, and when that is made good."""

from __future__ import annotations

from statistics import mean

from tfzoo.sweep.report.curves import validated
from tfzoo.sweep.report.numbers import format_value
from tfzoo.sweep.report.results import Results

HEADS = ("", "before the first step", "made good after steps, by seed")


def swapped(results: Results) -> tuple[str, list[list[str]]]:
    """A caption, and the lines of a table under ``HEADS``; no lines unless training began with
    trained weights, which are validated before the first step.

    A swap is made good at the first validation that is no worse, but for the sweep's margin, than
    that of the same seed's baseline before its first step.
    """
    judged = results.verdicts[0]
    metric, found = validated(results)
    curves = {run: curve for run, curve in found.items() if 0 in curve}
    same = metric.rpartition("/")[2] == judged.metric.rpartition("/")[2]
    margin = judged.design.margin if same else None
    sign = 1 if metric.endswith("loss") or judged.mode == "min" else -1
    unchanged = [cell.name for cell in results.cells if cell.labels == results.baseline]
    goals = {}
    for (name, seed), curve in curves.items():
        if name in unchanged:
            unit = abs(curve[0]) if margin and margin.is_share else 1.0
            goals[seed] = sign * curve[0] + (margin.value * unit if margin else 0.0)
    lines = []
    for cell in results.cells:
        own = {seed: curves[cell.name, seed] for seed in goals if (cell.name, seed) in curves}
        good = [
            next((str(at) for at in sorted(curve) if sign * curve[at] <= goals[seed]), "not")
            for seed, curve in sorted(own.items())
        ]
        if own:
            at_once = format_value(mean(curve[0] for curve in own.values()))
            lines.append([cell.title, at_once, ", ".join(good)])
    within = ", or worse by at most the sweep's margin" if margin else ""
    return (
        f"Training began with trained weights. {metric} before the first step, the mean over "
        "seeds, and the first validation that is as good as the baseline's before its first step"
        f"{within}.",
        lines,
    )
