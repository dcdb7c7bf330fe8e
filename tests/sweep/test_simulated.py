"""The table of simulated sweeps is the judge's, and its promises hold in a small one."""

import numpy as np
import pytest
from scipy.stats import binom

from benchmarks import judging
from benchmarks.judging import CHANCE, MARGIN, WORLDS, shares, simulate, verdicts
from tfzoo.sweep.judge.design import Design, Margin
from tfzoo.sweep.judge.verdicts import judge

NAMES = {"worse": -1.0, "equivalent": 0.0, "better": 1.0}
BEYOND = [
    name for name in WORLDS if name.startswith("the baseline") or name.endswith("of equal mean")
]
"""What no test can know: a skew, a rare event or a dependence that the scores do not show."""


def rows(y, marked):
    """Those of a sweep, ``(cells, seeds)``."""
    return [
        {
            "cell": str(cell),
            "seed": seed,
            "status": "diverged" if gone else "completed",
            "score": "nan" if score == CHANCE else score,
        }
        for cell, both in enumerate(zip(y, marked, strict=True))
        for seed, (score, gone) in enumerate(zip(*both, strict=True))
    ]


@pytest.mark.parametrize("name", WORLDS)
def test_the_verdicts_of_simulated_sweeps_are_the_judges(name):
    world = WORLDS[name]
    for cells, seeds, effect in ((1, 5, 0.0), (3, 3, -1.0), (3, 10, -1.5)):
        if world.looks and seeds < world.looks[-1]:
            continue
        y, marked = simulate(world, 5, cells, seeds, effect)
        design = Design(Margin(MARGIN), world.looks)
        axes = {"cell": [str(cell) for cell in range(cells + 1)]}
        for own, gone, found in zip(y, marked, verdicts(world, y, marked)[1], strict=True):
            table = rows(own, gone)
            said = judge(table, axes, {}, "score", "max", design, CHANCE).cells[1:]
            np.testing.assert_array_equal([NAMES.get(one.verdict, np.nan) for one in said], found)


@pytest.mark.parametrize("name", [name for name in WORLDS if name not in BEYOND])
def test_false_verdicts_come_in_at_most_5_percent_of_simulated_sweeps(name):
    sweeps, seeds = 500, WORLDS[name].looks or (3, 5)
    most = binom.ppf(0.999, sweeps, 0.05) / sweeps
    for cells in (1, 3):
        (_, false), (_, equivalent), _ = shares(WORLDS[name], sweeps, cells, seeds[-1])
        assert max(false, equivalent) <= most


def test_the_table_is_printed_by_its_command(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["judging", "--sweeps", "20", "--seeds", "3"])
    judging.main()
    assert "| normal |" in capsys.readouterr().out
