"""Poolings against sums written down one by one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import tfzoo

TEXT = torch.tensor([[[1.0, -5.0], [3.0, -7.0], [99.0, 99.0]], [[2.0, 8.0], [99.0, 99.0], [99.0, 99.0]]])
VALID = torch.tensor([[True, True, False], [True, False, False]])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mean", [[2.0, -6.0], [2.0, 8.0]]),
        ("sum", [[4.0, -12.0], [2.0, 8.0]]),
        ("first", [[1.0, -5.0], [2.0, 8.0]]),
        ("max", [[3.0, -5.0], [2.0, 8.0]]),
    ],
)
def test_a_pooling_is_its_formula(name: str, expected: list[list[float]]) -> None:
    torch.testing.assert_close(tfzoo.create("pooling", name, dim=2)(TEXT, VALID), torch.tensor(expected))


@pytest.mark.parametrize(("name", "by_torch"), [("mean", torch.mean), ("sum", torch.sum), ("max", torch.amax)])
def test_without_padding_a_pooling_is_torchs_own(name: str, by_torch: Callable[..., Tensor]) -> None:
    x = torch.randn(3, 7, 5)
    torch.testing.assert_close(tfzoo.create("pooling", name)(x), by_torch(x, 1))


def test_the_largest_of_negative_numbers_is_not_the_zero_of_padding() -> None:
    x = torch.tensor([[[-4.0], [-2.0], [0.0]]])
    assert tfzoo.create("pooling", "max")(x, torch.tensor([[True, True, False]])).item() == -2.0


def test_the_first_token_stands_behind_padding_on_the_left() -> None:
    assert tfzoo.create("pooling", "first")(TEXT, ~VALID)[:, 0].tolist() == [99.0, 99.0]
    assert tfzoo.create("pooling", "first")(TEXT, torch.tensor([[False, True, True], [False, False, False]]))[:, 0].tolist() == [3.0, 0.0]
