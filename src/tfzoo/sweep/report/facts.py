"""What was compared and how, as lines of text: axes, budget, runs, command, versions, hardware; and
one line that can be quoted.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

from tfzoo.sweep.judge.scores_by_seed import listed
from tfzoo.sweep.judge.sentences import format_corrected, format_estimate
from tfzoo.sweep.judge.verdicts import Judged
from tfzoo.sweep.report.numbers import format_duration, format_value
from tfzoo.sweep.report.results import CellResult, Results

MODES = {"grid": "all combinations", "one_at_a_time": "one at a time, around the baseline"}


def facts(results: Results) -> list[tuple[str, str]]:
    """What was compared: title and text of each line."""
    file = results.file
    varied = "; ".join(
        f"{results.axis_name(axis)}: {', '.join(labels)}" for axis, labels in results.axes.items()
    )
    found = [
        ("Module", f"{file['module']} on {file.get('data') or 'data of its own'}")
        if "module" in file
        else ("Recipe", str(file["recipe"])),
        ("Varied", varied),
        ("How", MODES.get(str(file.get("mode", "grid")), str(file.get("mode")))),
        (
            "Baseline",
            ", ".join(
                f"{results.axis_name(axis)} {label}" for axis, label in results.baseline.items()
            ),
        ),
        (
            "Seeds",
            ", ".join(
                map(str, sorted({row["seed"] for row in results.rows if row["seed"] is not None}))
            ),
        ),
        ("Budget", budget(results)),
    ]
    if earlier := results.verdicts[0].design.earlier:
        before = " and ".join(map(str, earlier))
        found.append(
            (
                "Grown",
                f"judged with {before} seeds before; the sweep did not declare that it would grow "
                "(looks), so what it says now is an estimate and no verdict",
            )
        )
    if tune := file.get("tune"):
        values = ", ".join(str(one) for one in tune.get("values", []))
        found.append(("Tuned", f"{tune['key']}, for each cell separately, among {values}"))
    return [*found, ("Runs", runs(results))]


def quote(results: Results) -> str:
    """``norm=rms instead of layer: val/loss 1.23 -> 1.21, difference -0.02 (95 % CI -0.04 to
    -0.01), 5 seeds, p = 0.003, tfzoo 0.2.0, recipe translation/numbers, 350 steps``: the largest
    difference of the first metric, in standard errors, that has a verdict, else of all. ``""`` if
    nothing was tested.
    """
    verdicts = results.verdicts[0]
    every = [*verdicts.axes, *verdicts.cells]
    tested = [one for one in every if one.p is not None and one.difference_low is not None]
    if not tested:
        return ""
    one = max(tested, key=lambda one: (one.verdict in ("better", "worse"), clearness(one)))
    varied = [axis for axis, label in one.labels.items() if label != results.baseline[axis]]
    others = [results.axis_name(other) for other in results.axes if other not in one.labels]
    over = f" (averaged over {', '.join(others)})" if others and verdicts.is_grid else ""
    own, base = (
        ", ".join(f"{results.axis_name(axis)}={labels[axis]}" for axis in varied)
        for labels in (one.labels, results.baseline)
    )
    return ", ".join(
        [
            f"{own} instead of {base.partition('=')[2] if len(varied) == 1 else base}{over}: "
            f"{verdicts.metric} {change(one)}",
            f"no verdict ({one.why_open})"
            if one.why_open
            else f"{'a hint: ' * one.is_hint}{one.verdict}",
            f"{one.pairs} seeds",
            *([f"{one.diverged} of its runs diverged"] if one.diverged else []),
            format_corrected(one.p_corrected or 0.0, verdicts.comparisons),
            *source(results),
        ]
    )


def clearness(one: Judged) -> float:
    """The size of a difference in halves of its interval."""
    low, high = one.difference_low or 0.0, one.difference_high or 0.0
    return abs(one.difference or 0.0) / ((high - low) / 2)


def change(one: Judged) -> str:
    """``1.23 -> 1.21, difference -0.02 (95 % CI -0.04 to -0.01)``."""
    mean, difference = one.mean or 0.0, one.difference or 0.0
    low, high = one.difference_low or 0.0, one.difference_high or 0.0
    before, after = (
        format_value(value).replace("\N{MINUS SIGN}", "-") for value in (mean - difference, mean)
    )
    return f"{before} -> {after}, difference {format_estimate(difference, low, high)}"


def source(results: Results) -> list[str]:
    """Version, recipe or module, and steps."""
    versions = Counter(
        one.get("fit", {}).get("versions", {}).get("tfzoo")
        for folder in results.folders
        for one in folder.summaries()
    )
    found = [f"tfzoo {name}" for name, _ in versions.most_common(1) if name]
    kind = "module" if "module" in results.file else "recipe"
    found.append(f"{kind} {results.file.get(kind)}")
    steps = {row["steps"] for cell in results.cells for row in cell.done if row["steps"]}
    return [*found, f"{between(steps)} steps"] if steps else found


def legend(results: Results) -> str:
    """How verdicts and intervals are to be read."""
    design = results.verdicts[0].design
    looks = (
        f" The sweep declared that it would be judged with {', '.join(map(str, design.looks))} "
        "seeds: verdicts "
        "and intervals hold at all of these looks together; p are sequential ones."
        if design.looks
        else ""
    )
    return (
        "95 % CI: all intervals of a metric's differences together hold in 95 of 100 sweeps (each "
        "has the level 1 - 0.05 / comparisons). p and verdicts are corrected for all comparisons "
        "of a metric (Holm's method, which is sharper than the intervals; family-wise error rate "
        f"5 %).{looks}"
    )


def budget(results: Results) -> str:
    """The limit of each run, and what the runs used."""
    given = results.file.get("budget") or {}
    parts = [f"{given[key]:,} {key} per run" for key in ("steps", "tokens") if given.get(key)] or [
        "the recipe's own limits"
    ]
    if given.get("time"):
        parts.append(f"at most {given['time']} each")
    done = [row for cell in results.cells for row in cell.done]
    used = [
        f"{between(row[key] for row in done)} {word}"
        for key, word in (("steps", "steps"), ("train_tokens", "tokens"))
        if done and done[0][key]
    ]
    return ", ".join(parts) + (f" (used: {', '.join(used)})" if used else "")


def between(values: Iterable[Any]) -> str:
    """One number, or the smallest and the largest."""
    known = [value for value in values if value is not None]
    low, high = min(known), max(known)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def runs(results: Results) -> str:
    """The number of runs by status."""
    counted = Counter(row["status"] for row in results.rows if row["status"] != "refused")
    refused = sum(bool(cell.refused) for cell in results.cells)
    parts = [f"{counted['completed']} of {sum(counted.values())} completed"]
    parts += [
        f"{counted[status]} {status}"
        for status in ("diverged", "failed", "missing")
        if counted[status]
    ]
    return ", ".join(parts) + (f"; {refused} cell{'s' * (refused != 1)} refused" if refused else "")


def troubles(results: Results) -> list[tuple[str, str, str]]:
    """Refused cells and missing, failed or diverged runs: name, status, reason. Runs of a cell with
    the same status and reason share a line.
    """
    found: list[tuple[str, str, str]] = []
    for cell in results.cells:
        if cell.refused:
            found.append((cell.title, "refused", cell.refused))
        alike: dict[tuple[str, str], list[int]] = {}
        for row in cell.rows:
            if row["status"] in ("diverged", "failed", "missing"):
                alike.setdefault(
                    (row["status"], row["reason"] or "not started, or not finished"), []
                ).append(row["seed"])
        found += [
            (f"{cell.title}, {listed(which)}", status, reason)
            for (status, reason), which in alike.items()
        ]
    return found


def made_with(results: Results) -> list[tuple[str, str]]:
    """Commands, settings, versions and machines. Values that differ between runs are listed with
    the number of runs.
    """
    found = [("Command", folder.command) for folder in results.folders]
    for key, value in (results.file.get("overrides") or {}).items():
        found.append(
            (key, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        )
    if results.file.get("threads"):
        found.append(("Threads per run", str(results.file["threads"])))
    summaries = [one.get("fit", {}) for folder in results.folders for one in folder.summaries()]
    found.append(
        (
            "Versions",
            counted(
                ", ".join(f"{name} {of}" for name, of in one.get("versions", {}).items())
                for one in summaries
            ),
        )
    )
    found.append(("Hardware", counted(machine(one) for one in summaries)))
    found.append(("Hosts", counted(str(one.get("hostname") or "") for one in summaries)))
    spent = [row["train_seconds"] for row in results.rows if row["train_seconds"]]
    found.append(("Training, all runs", format_duration(sum(spent)) if spent else ""))
    return [(name, words) for name, words in found if words]


def machine(fit: dict[str, Any]) -> str:
    """Processor, cores, threads, GPUs."""
    hardware = fit.get("hardware") or {}
    gpus = Counter(hardware.get("gpus") or [])
    parts = [str(hardware.get("cpu") or "")] + [
        f"{hardware[key]} {key.removesuffix('s') if hardware[key] == 1 else key}"
        for key in ("cores", "threads")
        if hardware.get(key)
    ]
    return ", ".join(
        [part for part in parts if part] + [f"{count} × {name}" for name, count in gpus.items()]
    )


def counted(words: Iterable[str]) -> str:
    """The common value, or each value with the number of runs that have it."""
    kinds = Counter(word for word in words if word)
    if len(kinds) < 2:
        return "".join(kinds)
    return "; ".join(f"{word} ({count} runs)" for word, count in kinds.most_common())


def tuned(results: Results, cell: CellResult) -> str:
    """The value that tuning chose for a cell."""
    found = {row["tuned"] for row in cell.rows} - {None}
    return ", ".join(
        str(one) if isinstance(one, str) else format_value(one) for one in sorted(found, key=str)
    )


def has_tuned(results: Results) -> str:
    """The tuned key; ``""`` if there is none."""
    key = str((results.file.get("tune") or {}).get("key", ""))
    return key if any(row["tuned"] is not None for row in results.rows) else ""
