"""Poolings against sums written down one by one."""

import pytest
import torch
from torch import nn
from transformers import BertConfig
from transformers.models.bert.modeling_bert import BertPooler

import tfzoo
from tests.exact import close
from tfzoo.base.registry import create
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
    ("name", "valid", "found"),
    [
        ("first", [[False, True, True], [False, False, False]], [3.0, 0.0]),
        ("last", [[True, True, False], [False, False, False]], [3.0, 0.0]),
        ("first", (~VALID).tolist(), [99.0, 99.0]),
        ("last", (~VALID).tolist(), [99.0, 99.0]),
    ],
)
def test_padding_may_stand_on_either_side(name, valid, found):
    pooled = tfzoo.create("pooling", name)(TEXT, torch.tensor(valid))
    assert pooled[:, 0].tolist() == found


def test_a_convolution_refuses_widths_without_end():
    with pytest.raises(BadOption, match="longest=10000000 must be from shortest=3 to 100"):
        tfzoo.create("pooling", {"name": "convolution", "longest": 10_000_000}, dim=8)


def test_a_convolution_is_what_a_plain_convolutional_network_computes():
    """As Kim's network is written today, text by text."""
    torch.manual_seed(0)
    spec = {"name": "convolution", "shortest": 2, "longest": 4, "filters": 5}
    pooling, x = tfzoo.create("pooling", spec, dim=8), torch.randn(3, 9, 8)
    lengths = [9, 4, 1]
    valid = torch.arange(9) < torch.tensor(lengths)[:, None]
    layers = [nn.Conv1d(8, 5, width, padding=width - 1, bias=False) for width in (2, 3, 4)]
    for layer, filters in zip(layers, pooling.filters, strict=True):
        layer.weight = filters
    for row, length in enumerate(lengths):
        found = [nn.ReLU()(layer(x[row, :length].T)) for layer in layers]
        best = torch.cat([nn.MaxPool1d(one.shape[-1])(one[None])[0, :, 0] for one in found])
        torch.testing.assert_close(pooling(x, valid)[row], pooling.projection(best))


def test_the_pooler_is_berts():
    theirs = BertPooler(BertConfig(hidden_size=8, num_attention_heads=2)).double()
    ours = create("pooling", "pooler", dim=8).double()
    ours.linear.load_state_dict(theirs.dense.state_dict())
    x = torch.randn(3, 5, 8, dtype=torch.float64)
    close(ours(x), theirs(x))
