"""``report.html``: one self-contained page, which opens from disk without a network."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

from tfzoo.plots.pages.render import render
from tfzoo.sweep.judge.verdicts import Verdicts
from tfzoo.sweep.report import facts, tables
from tfzoo.sweep.report.answer import answer
from tfzoo.sweep.report.figures import curves, forest, sign, tradeoffs
from tfzoo.sweep.report.results import CellResult, Results

TEMPLATE = Path(__file__).parent / "page.html"
MAX_CELLS = 40
"""Cells that the page shows one by one. More would be megabytes, and nobody could read its
plots.
"""


def page(results: Results) -> str:
    """The page. Text from files is escaped; no script but the page's own can run."""
    best = best_cells(results)
    return render(
        TEMPLATE,
        sign=sign,
        results=results,
        facts=facts.facts(results),
        legend=facts.legend(results),
        cut=cut(results),
        answer=answer(results),
        answers=[by_metric(best, one) for one in best.verdicts],
        quote=facts.quote(results),
        interactions=list(tables.interactions(results)),
        repeats=list(tables.repeats(results)),
        swapped=tables.swapped(results),
        curves=curves(best),
        tradeoffs=tradeoffs(best),
        columns=tables.cell_columns(results),
        lines=[tables.cell_entries(best, cell) for cell in best.cells],
        troubles=facts.troubles(results),
        made_with=facts.made_with(results),
    )


def best_cells(results: Results) -> Results:
    """The results with their verdicts, of the baseline and the best cells by the sweep's own metric
    alone if there are more than :data:`MAX_CELLS`.
    """
    if len(results.cells) <= MAX_CELLS:
        return results
    sign = 1 if results.verdicts[0].mode == "min" else -1

    def rank(cell: CellResult) -> tuple[bool, float]:
        judged = cell.judged[0]
        mean = inf if judged is None or judged.mean is None else sign * judged.mean
        return cell.labels != results.baseline, mean

    names = {cell.name for cell in sorted(results.cells, key=rank)[:MAX_CELLS]}
    kept = [cell for cell in results.cells if cell.name in names]
    labels = {tuple(cell.labels.items()) for cell in kept}
    verdicts = [
        replace(one, cells=[own for own in one.cells if tuple(own.labels.items()) in labels])
        for one in results.verdicts
    ]
    rows = [row for cell in kept for row in cell.rows]
    return replace(results, cells=kept, rows=rows, verdicts=verdicts)


def cut(results: Results) -> str:
    """What the page leaves out; ``""`` if it shows all cells."""
    if len(results.cells) <= MAX_CELLS:
        return ""
    return (
        f"The baseline and the {MAX_CELLS - 1} cells with the best {results.verdicts[0].metric}, "
        f"of {len(results.cells):,} cells"
    )


def by_metric(results: Results, verdicts: Verdicts) -> dict[str, Any]:
    """The sentences and the forest plot of one metric."""
    return {
        "metric": verdicts.metric,
        "better": "lower is better" if verdicts.mode == "min" else "higher is better",
        "axes": [one for one in verdicts.axes if one.verdict != "baseline"]
        if verdicts.is_grid
        else [],
        "cells": [one for one in verdicts.cells if one.verdict != "baseline"],
        "baseline": next((one for one in verdicts.cells if one.verdict == "baseline"), None),
        "smallest": verdicts.smallest,
        "diverged": verdicts.diverged,
        "notes": verdicts.notes,
        "forest": forest(results, verdicts),
    }
