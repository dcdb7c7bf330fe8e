"""One line that can be quoted: the clearest difference, with all that it needs to be understood."""

from __future__ import annotations

from collections import Counter

from tfzoo.sweep.judge.sentences import format_corrected, format_estimate, hint
from tfzoo.sweep.judge.verdicts import Judged
from tfzoo.sweep.report.facts import between
from tfzoo.sweep.report.numbers import format_value
from tfzoo.sweep.report.results import Results


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
            else f"{hint(one.p_corrected or 0.0) * (one.verdict != 'not yet known')}{one.verdict}",
            f"{one.pairs} seeds",
            format_corrected(one.p_corrected or 0.0, verdicts.comparisons),
            *made_with(results),
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


def made_with(results: Results) -> list[str]:
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
