"""Learning-rate schedules are those of their papers."""

import math
import re

import pytest
import torch

from tests.golden import load
from tfzoo import create, list_components
from tfzoo.errors import BadOption
from tfzoo.learning.optim import Optim


@pytest.mark.parametrize("case_id", ["schedule/warmup_8", "schedule/warmup_4000"])
def test_inverse_sqrt_is_the_papers(case_id):
    case, _ = load(case_id)
    config, data = case["config"], case["data"]
    schedule = create("schedule", {"name": "inverse_sqrt", "warmup": config["warmup"]})
    peak = config["factor"] * (config["dim"] * config["warmup"]) ** -0.5
    for update, rate in zip(data["steps"], data["joeynmt_noam"], strict=True):
        if update > 0:  # the paper's formula has no update 0
            assert peak * schedule.factor(update) == pytest.approx(rate, rel=1e-6)


def test_a_warm_up_that_is_left_out_is_that_of_the_paper_or_none():
    assert create("schedule", "inverse_sqrt").factor(1000) == 1000 / 4000
    for name in set(list_components()["schedule"]) - {"inverse_sqrt"}:
        for spec in (name, {"name": name, "warmup": 0}):
            assert create("schedule", spec, max_steps=10).factor(1) == 1


def test_the_first_update_uses_the_first_rate():
    linear = torch.nn.Linear(2, 2, bias=False)
    optim = Optim(lr=1.0, schedule={"name": "inverse_sqrt", "warmup": 4})
    configured = optim.configure(linear, max_steps=10)
    optimizer, scheduler = configured["optimizer"], configured["lr_scheduler"]["scheduler"]
    rates = []
    for _ in range(6):
        rates.append(optimizer.param_groups[0]["lr"])
        linear.weight.grad = torch.ones(2, 2)
        optimizer.step()
        scheduler.step()
    assert rates == pytest.approx([0.25, 0.5, 0.75, 1.0, (4 / 5) ** 0.5, (4 / 6) ** 0.5])


@pytest.mark.parametrize("name", list_components()["schedule"])
def test_a_training_of_one_update_or_within_the_warmup_has_a_rate(name):
    assert create("schedule", {"name": name, "warmup": 0}, max_steps=1).factor(1) == 1
    long = create("schedule", {"name": name, "warmup": 100}, max_steps=10)
    assert [long.factor(update) for update in (1, 10)] == pytest.approx([0.01, 0.1])


def test_linear_and_cosine_decay_as_those_of_transformers():
    """At their update s - 1, as the warm-up is one update ahead."""
    warmup, steps = 4, 20
    linear = create("schedule", {"name": "linear", "warmup": warmup}, max_steps=steps)
    cosine = create("schedule", {"name": "cosine", "warmup": warmup}, max_steps=steps)
    for s in range(warmup + 1, steps + 1):
        progress = (s - 1 - warmup) / max(1, steps - warmup)
        assert linear.factor(s) == pytest.approx((steps - (s - 1)) / (steps - warmup))
        assert cosine.factor(s) == pytest.approx(0.5 * (1 + math.cos(math.pi * progress)))
    assert create("schedule", "cosine", max_steps=10**7).factor(10**7) > 0


@pytest.mark.parametrize(
    ("optim", "says"),
    [
        ({"lr": 0}, "optim.lr=0 must be a finite number over 0"),
        ({"lr": math.nan}, "optim.lr=nan must"),
        ({"weight_decay": -1}, "optim.weight_decay=-1 must be a finite number at least 0"),
        ({"betas": [0.9, 1.5]}, "optim.betas[1]=1.5 must be a finite number at least 0"),
        ({"eps": 0}, "optim.eps=0 must"),
        ({"label_smoothing": 1.0}, "optim.label_smoothing=1.0 must be a finite number at least 0"),
        ({"max_skipped": 0}, "optim.max_skipped=0 must be a whole number at least 1"),
    ],
)
def test_numbers_out_of_range_are_refused_when_the_recipe_is_read(optim, says):
    with pytest.raises(BadOption, match=re.escape(says)):
        Optim(**optim)
