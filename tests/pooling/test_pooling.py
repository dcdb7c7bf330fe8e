"""Poolings against sums written down one by one."""

import pytest
import torch
from torch import nn

import tfzoo
from tfzoo.errors import BadOption

TEXT = torch.tensor(
    [[[1.0, -5.0], [3.0, -7.0], [99.0, 99.0]], [[2.0, 8.0], [99.0, 99.0], [99.0, 99.0]]]
)
VALID = torch.tensor([[True, True, False], [True, False, False]])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mean", [[2.0, -6.0], [2.0, 8.0]]),
        ("sum", [[4.0, -12.0], [2.0, 8.0]]),
        ("first", [[1.0, -5.0], [2.0, 8.0]]),
        ("last", [[3.0, -7.0], [2.0, 8.0]]),
        ("max", [[3.0, -5.0], [2.0, 8.0]]),
    ],
)
def test_a_pooling_is_its_formula(name, expected):
    torch.testing.assert_close(
        tfzoo.create("pooling", name, dim=2)(TEXT, VALID), torch.tensor(expected)
    )


@pytest.mark.parametrize(
    ("name", "by_torch"), [("mean", torch.mean), ("sum", torch.sum), ("max", torch.amax)]
)
def test_without_padding_a_pooling_is_torchs_own(name, by_torch):
    x = torch.randn(3, 7, 5)
    torch.testing.assert_close(tfzoo.create("pooling", name)(x), by_torch(x, 1))


def test_the_largest_of_negative_numbers_is_not_the_zero_of_padding():
    x = torch.tensor([[[-4.0], [-2.0], [0.0]]])
    assert tfzoo.create("pooling", "max")(x, torch.tensor([[True, True, False]])).item() == -2.0


def test_the_first_token_stands_behind_padding_on_the_left():
    assert tfzoo.create("pooling", "first")(TEXT, ~VALID)[:, 0].tolist() == [99.0, 99.0]
    assert tfzoo.create("pooling", "first")(
        TEXT, torch.tensor([[False, True, True], [False, False, False]])
    )[:, 0].tolist() == [3.0, 0.0]


def test_the_last_token_stands_before_padding_on_the_right():
    assert tfzoo.create("pooling", "last")(TEXT, ~VALID)[:, 0].tolist() == [99.0, 99.0]
    assert tfzoo.create("pooling", "last")(
        TEXT, torch.tensor([[True, True, False], [False, False, False]])
    )[:, 0].tolist() == [3.0, 0.0]


def test_a_convolution_is_each_filter_where_it_matches_best():
    """Every run of tokens written down, with the zeros around the text that it may reach over."""
    torch.manual_seed(0)
    pooling = tfzoo.create(
        "pooling", {"name": "convolution", "shortest": 1, "longest": 3, "filters": 4}, dim=5
    )
    for text in (torch.randn(6, 5), torch.randn(1, 5)):
        found = []
        for width, filters in zip((1, 2, 3), pooling.filters, strict=True):
            around = torch.cat([torch.zeros(width - 1, 5), text, torch.zeros(width - 1, 5)])
            runs = [around[i : i + width].T for i in range(len(around) - width + 1)]
            found += [max(0.0, *((run * one).sum().item() for run in runs)) for one in filters]
        torch.testing.assert_close(
            pooling(text[None]), (pooling.projection.weight @ torch.tensor(found))[None]
        )


def test_a_convolution_refuses_widths_without_end():
    with pytest.raises(BadOption, match="longest=10000000 must be from shortest=3 to 100"):
        tfzoo.create("pooling", {"name": "convolution", "longest": 10_000_000}, dim=8)


def test_a_convolution_is_what_a_plain_convolutional_network_computes():
    """``nn.Conv1d``, ``nn.ReLU``, ``nn.MaxPool1d`` and ``nn.Linear``, as Kim's network is written
    today, text by text.
    """
    torch.manual_seed(0)
    pooling, x = tfzoo.create("pooling", "convolution", dim=8), torch.randn(3, 9, 8)
    lengths = [9, 4, 1]
    valid = torch.arange(9) < torch.tensor(lengths)[:, None]
    layers = [nn.Conv1d(8, 100, width, padding=width - 1, bias=False) for width in (3, 4, 5)]
    for layer, filters in zip(layers, pooling.filters, strict=True):
        layer.weight = filters
    for row, length in enumerate(lengths):
        found = [nn.ReLU()(layer(x[row, :length].T)) for layer in layers]
        best = torch.cat([nn.MaxPool1d(one.shape[-1])(one[None])[0, :, 0] for one in found])
        torch.testing.assert_close(pooling(x, valid)[row], pooling.projection(best))
