"""A sampled axis: its values follow from the file, lie within the bounds, and are levels as any."""

import math
from itertools import pairwise

import pytest

from tests.sweep.files import sweep_file
from tfzoo.errors import BadRecipe
from tfzoo.sweep.plan.load import load
from tfzoo.sweep.plan.sample import draw
from tfzoo.sweep.plan.sweep_file import parse

LR = {"low": 1e-5, "high": 1e-1, "log": True, "count": 5}


def test_values_are_the_same_every_time_and_others_for_another_seed_or_axis():
    drawn = draw("optim.lr", LR)
    assert drawn == draw("optim.lr", LR)
    assert not set(drawn) & set(draw("optim.lr", {**LR, "seed": 1}))
    assert not set(drawn) & set(draw("model.norm.eps", LR))


def test_a_larger_count_keeps_the_values_that_were_there():
    assert draw("optim.lr", {**LR, "count": 9})[:5] == draw("optim.lr", LR)


@pytest.mark.parametrize("log", [True, False])
def test_values_are_spread_over_the_whole_range(log):
    found = sorted(draw("optim.lr", {**LR, "log": log, "count": 20}))
    assert len(set(found)) == 20
    low, high = (math.log(1e-5), math.log(1e-1)) if log else (1e-5, 1e-1)
    places = [((math.log(one) if log else one) - low) / (high - low) for one in found]
    assert -1e-9 <= places[0] < 0.1
    assert 0.9 < places[-1] <= 1 + 1e-9
    assert max(b - a for a, b in pairwise(places)) < 0.12
    assert [float(f"{one:.3g}") for one in found] == found, "three digits"


def test_whole_bounds_give_whole_numbers_each_once():
    found = draw("model.layers", {"low": 1, "high": 6, "count": 6})
    assert sorted(found) == [1, 2, 3, 4, 5, 6]
    assert {type(one) for one in found} == {int}
    assert all(type(one) is float for one in draw("x", {"low": 0.0, "high": 6, "count": 6}))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"low": 1.0}, "low is below high, not 1.0 and 0.1"),
        ({"low": 0.1}, "low is below high, not 0.1 and 0.1"),
        ({"low": 0}, "low is above 0 where log is true, not 0"),
        ({"high": "much"}, "high is a number, not 'much'"),
        ({"high": math.inf}, "high is a number, not inf"),
        ({"low": None}, "low is a number, not None"),
        ({"count": 1}, "count is a whole number from 2 on, not 1"),
        ({"count": None}, "count is a whole number from 2 on, not None"),
        ({"log": "yes"}, "log is true or false, not 'yes'"),
        ({"low": 1, "high": 3, "count": 4}, "there are only 3 values between 1 and 3, not 4"),
        ({"cuont": 3}, "has no key 'cuont'. Did you mean 'count'?"),
    ],
)
def test_a_slip_is_refused_before_anything_runs(tmp_path, change, said):
    file = sweep_file(tmp_path, axes={"optim.lr": {**LR, **change}})
    with pytest.raises(BadRecipe) as caught:
        load(file)
    assert said in str(caught.value)
    assert "axes: optim.lr" in str(caught.value)


def test_values_are_levels_and_the_baseline_may_be_one_of_its_own(tmp_path):
    tree = {
        "recipe": "translation/numbers",
        "axes": {"optim.lr": {**LR, "count": 3}, "width": {"low": {}, "high": {"model.dim": 64}}},
        "baseline": {"optim.lr": 1e-3},
        "seeds": [1],
        "metric": {"name": "val/loss", "mode": "min"},
    }
    plan = parse(tmp_path / "x.yaml", tree)
    values = sorted([0.001, *draw("optim.lr", LR)[:3]])
    assert list(plan.axes["optim.lr"]) == [str(one) for one in values]
    assert plan.baseline["optim.lr"] == "0.001"
    smallest = parse(tmp_path / "x.yaml", {**tree, "baseline": {}}).baseline["optim.lr"]
    assert float(smallest) == min(draw("optim.lr", {**LR, "count": 3})), "not the first drawn"
    assert list(plan.axes["width"]) == ["low", "high"], "named sets, whatever their names"
    assert parse(tmp_path / "x.yaml", plan.to_dict()) == plan, "the folder's copy draws nothing"
