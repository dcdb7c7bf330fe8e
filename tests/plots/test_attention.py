"""The picture of attention maps shows the weights, and its text can be read."""

import numpy as np
import pytest
import torch

from tests.pages.test_attention import SOURCE, described, made, maps
from tfzoo.plots import attention_figure
from tfzoo.plots.pages.attention import AttentionMap, TooLarge


def test_a_picture_shows_each_head_with_its_tokens():
    found = maps()
    other = AttentionMap("encoder", 4, torch.randn(1, 4, 4), ["$a", "_b", "\n", "新"], SOURCE)
    figure = attention_figure(described(found, "runs/x/1"), described([other], "runs/y/1"))
    panels = figure.axes
    wanted = [head for one in (*found, other) for head in one.weights]
    assert len(panels) == len(wanted)
    for panel, head in zip(panels, wanted, strict=True):
        np.testing.assert_array_equal(panel.images[0].get_array(), head)
    assert panels[0].get_title() == f"head 0, 0 to {wanted[0].max():.2f}"
    assert panels[-1].get_title() == f"head 0, ±{wanted[-1].abs().max():.2f}"
    assert [one.get_text() for one in panels[0].get_yticklabels()][:2] == ["one", "▁two"]
    assert next(one.get_text() for one in panels[-1].get_yticklabels()) == "$a"


def test_text_of_a_picture_lies_within_it_and_no_label_on_a_panel():
    tokens = [f" {'long' * 5}{n}" for n in range(9)]
    found = [AttentionMap("encoder", n, made(9, 9, 9), tokens, tokens) for n in (0, 1)]
    figure = attention_figure(described(found, "runs/x/1"))
    render = figure.canvas.get_renderer()
    boxes = [one.get_window_extent(render) for one in figure.axes]
    labels = [
        label
        for one in figure.axes
        for label in (*one.get_xticklabels(), *one.get_yticklabels(), one.title)
    ]
    for label in (*labels, *figure.texts[1:]):
        box = label.get_window_extent(render)
        assert box.x0 >= 0
        assert box.x1 <= figure.bbox.x1
        assert box.y0 >= 0
        assert not any(box.overlaps(other.shrunk(0.99, 0.99)) for other in boxes), label


def test_more_layers_than_a_picture_holds_are_refused():
    tokens = ["▁token"] * 40
    many = [AttentionMap("encoder", n, made(8, 40, 40), tokens, tokens) for n in range(12)]
    with pytest.raises(TooLarge, match=r"inches high, more than 60: choose layers \(--layers 0,1,"):
        attention_figure(described(many, ""))
