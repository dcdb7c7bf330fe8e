"""How a sweep was made: recipe, budget, command, settings, versions and machines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from tfzoo.sweep.plan.layout import text
from tfzoo.sweep.report.results import Results


def facts(results: Results) -> list[tuple[str, str]]:
    """The title and the text of each line. Values that differ between runs are listed with the
    number of runs.
    """
    file, design = results.file, results.verdicts[0].design
    of_runs = [one.get("fit", {}) for one in results.folder.summaries()]
    baseline = [f"{results.axis_name(axis)} {label}" for axis, label in results.baseline.items()]
    seeds = sorted({row["seed"] for row in results.rows if row["seed"] is not None})
    before = " and ".join(map(str, design.earlier))
    tune = file.get("tune") or {}
    found = {
        "Recipe": str(file.get("recipe") or f"{file.get('module')} on {file.get('data')}"),
        "Baseline": ", ".join(baseline),
        "Seeds": ", ".join(map(str, seeds)),
        "Budget": budget(results),
        "Tuned": tune and f"{tune['key']}, for each cell, among {text(tune['values'])}",
        "Grown": before
        and f"judged with {before} seeds before; the sweep did not declare that it would grow "
        "(looks), so what it says now is an estimate and no verdict",
        "Command": results.folder.command,
        **{key: text(value) for key, value in (file.get("overrides") or {}).items()},
        "Versions": counted(
            ", ".join(f"{name} {of}" for name, of in one.get("versions", {}).items())
            for one in of_runs
        ),
        "Hardware": counted(machine(one.get("hardware") or {}) for one in of_runs),
        "How to read it": legend(results),
    }
    return [(name, words) for name, words in found.items() if words]


def legend(results: Results) -> str:
    """How verdicts and intervals are to be read."""
    looks = results.verdicts[0].design.looks
    return (
        "all 95 % intervals of a metric's differences together hold in 95 of 100 sweeps (each has "
        "the level 1 - 0.05 / comparisons). p and verdicts are corrected for all comparisons of a "
        "metric (Holm's method, which is sharper than the intervals; family-wise error rate 5 %)."
    ) + (
        f" The sweep declared that it would be judged with {', '.join(map(str, looks))} seeds: "
        "verdicts and intervals hold at all of these looks together; p is sequential, the smallest "
        "so far."
        if looks
        else ""
    )


def budget(results: Results) -> str:
    """The limit of each run, and the steps that the runs took."""
    given = results.file.get("budget") or {}
    limits = [f"{key} {value}" for key, value in given.items()] or ["that of the recipe"]
    steps = sorted({row["steps"] for cell in results.cells for row in cell.done if row["steps"]})
    taken = " to ".join(f"{one:,}" for one in dict.fromkeys([*steps[:1], *steps[-1:]]))
    return ", ".join(limits) + (f" (taken: {taken} steps)" if steps else "")


def machine(hardware: dict[str, Any]) -> str:
    """``AMD EPYC, 2 cores, 1 threads``."""
    parts = [str(hardware.get("cpu") or ""), *hardware.get("gpus", [])]
    parts += [f"{hardware[key]} {key}" for key in ("cores", "threads") if hardware.get(key)]
    return ", ".join(filter(None, parts))


def counted(words: Iterable[str]) -> str:
    """The common value, or each value with the number of runs that have it."""
    kinds = Counter(word for word in words if word)
    if len(kinds) < 2:
        return "".join(kinds)
    return "; ".join(f"{word} ({count} runs)" for word, count in kinds.most_common())
