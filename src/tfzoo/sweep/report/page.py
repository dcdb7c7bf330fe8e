"""``report.html``: one self-contained page, which opens from disk without a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from markupsafe import Markup

from tfzoo.plots.pages.render import render
from tfzoo.sweep.judge import Verdicts
from tfzoo.sweep.paired import ALPHA
from tfzoo.sweep.report import cells, dependences, facts, repeated
from tfzoo.sweep.report.curves import curves
from tfzoo.sweep.report.equal_time import HEADS, equal_time
from tfzoo.sweep.report.forest import forest
from tfzoo.sweep.report.heat import grids
from tfzoo.sweep.report.quote import quote
from tfzoo.sweep.report.svg import mark, tag
from tfzoo.sweep.report.tradeoff import tradeoffs
from tfzoo.sweep.results import Results

TEMPLATE = Path(__file__).parent / "page.html"


def page(results: Results) -> str:
    """The page. Text from files is escaped; no script but the page's own can run."""
    return render(
        TEMPLATE,
        sign=sign,
        results=results,
        facts=facts.facts(results),
        legend=facts.legend(results),
        answers=[answer(results, one) for one in results.verdicts],
        quote=quote(results),
        dependences=[
            (metric, one.sentence, dependences.heads(results, one), list(dependences.lines(one)))
            for metric, pairs in results.dependences.items()
            for one in pairs
        ],
        equal_time=equal_time(results),
        time_heads=HEADS,
        repeats=[
            (repeated.summary(one), list(repeated.rows(one, results.title)))
            for one in results.repeats
        ],
        repeat_heads=list(repeated.HEADS),
        grids=list(grids(results)),
        curves=curves(results),
        tradeoffs=tradeoffs(results),
        columns=cells.columns(results),
        lines=[cells.entries(results, cell) for cell in results.cells],
        pruned=facts.pruned(results),
        troubles=facts.troubles(results),
        made_with=facts.made_with(results),
    )


def answer(results: Results, verdicts: Verdicts) -> dict[str, Any]:
    """The sentences and the forest plot of one metric."""
    return {
        "metric": verdicts.metric,
        "better": "lower is better" if verdicts.mode == "min" else "higher is better",
        "axes": [one for one in verdicts.axes if one.verdict != "baseline"]
        if facts.has_main_effects(results)
        else [],
        "cells": [one for one in verdicts.cells if one.verdict != "baseline"],
        "baseline": next((one for one in verdicts.cells if one.verdict == "baseline"), None),
        "smallest": verdicts.smallest,
        "diverged": verdicts.diverged,
        "notes": verdicts.notes,
        "forest": forest(results, verdicts),
        "uncorrected": any(
            one.verdict == "not yet known" and (one.p or 1.0) < ALPHA
            for one in (*verdicts.axes, *verdicts.cells)
        ),
    }


def sign(verdict: str) -> Markup:
    """The mark of a verdict within text."""
    drawn = mark(8.0, 8.0, verdict, size=6.0)
    return tag(
        "svg", drawn, viewBox="0 0 16 16", width=16, height=16, class_="sign", aria_hidden="true"
    )
