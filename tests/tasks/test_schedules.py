"""Learning-rate schedules are those of their papers."""

from __future__ import annotations

import pytest
import torch

from tests.golden import load
from tfzoo import create, list_components
from tfzoo.errors import BadOption, UnknownName
from tfzoo.tasks.optim import Optim


@pytest.mark.parametrize("case_id", ["schedule/warmup_8", "schedule/warmup_4000"])
def test_inverse_sqrt_is_the_papers(case_id: str) -> None:
    case, _ = load(case_id)
    config, data = case["config"], case["data"]
    schedule = create("schedule", {"name": "inverse_sqrt", "warmup": config["warmup"]})
    peak = config["factor"] * (config["dim"] * config["warmup"]) ** -0.5
    for update, rate in zip(data["steps"], data["joeynmt_noam"], strict=True):
        if update > 0:  # the paper's formula has no update 0
            assert peak * schedule.factor(update) == pytest.approx(rate, rel=1e-6)


def test_the_first_update_uses_the_first_rate() -> None:
    parameter = torch.nn.Parameter(torch.ones(2, 2))
    configured = Optim(lr=1.0, schedule={"name": "inverse_sqrt", "warmup": 4}).configure(
        [parameter], max_steps=10
    )
    optimizer, scheduler = configured["optimizer"], configured["lr_scheduler"]["scheduler"]
    rates = []
    for _ in range(6):
        rates.append(optimizer.param_groups[0]["lr"])
        parameter.grad = torch.ones_like(parameter)
        optimizer.step()
        scheduler.step()
    assert rates == pytest.approx([0.25, 0.5, 0.75, 1.0, (4 / 5) ** 0.5, (4 / 6) ** 0.5])


@pytest.mark.parametrize("name", list_components()["schedule"])
def test_every_schedule_is_a_share_of_the_peak_from_first_to_last(name: str) -> None:
    schedule = create("schedule", {"name": name, "warmup": 5}, max_steps=50)
    factors = [schedule.factor(update) for update in range(1, 51)]
    assert max(factors) == pytest.approx(1.0)
    assert all(0 <= factor <= 1 for factor in factors)
    assert factors[:5] == sorted(factors[:5])
    assert factors[5:] == sorted(factors[5:], reverse=True)


def test_weight_decay_spares_biases_and_norms() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.LayerNorm(3))
    groups = Optim(weight_decay=0.1).configure(model.parameters(), 1)["optimizer"].param_groups
    assert [(group["weight_decay"], {p.dim() for p in group["params"]}) for group in groups] == [
        (0.1, {2}),
        (0.0, {1}),
    ]


def test_bad_numbers_are_refused_before_any_data_is_read() -> None:
    with pytest.raises(BadOption):
        Optim(lr=0)
    with pytest.raises(BadOption):
        Optim(label_smoothing=1.0)
    with pytest.raises(UnknownName, match="inverse_sqrt"):
        Optim(schedule="inverse_sqr")
