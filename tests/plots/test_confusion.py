"""A picture of what a classifier confuses."""

import warnings

import numpy as np
import pytest
import torch

from tfzoo.plots.confusion import confusion_figure
from tfzoo.plots.style import INK, pixels


@pytest.mark.parametrize("classes", [2, 6, 47])
def test_a_confusion_matrix_is_drawn_whatever_the_labels_are(classes):
    labels = [
        "costs $5 or $6",
        "数",
        *(f"a very long label that nobody reads {i}" for i in range(classes)),
    ][:classes]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = confusion_figure(torch.arange(classes**2).view(classes, classes), labels, "test")
        picture = pixels(figure)
    assert picture.shape[2] == 4
    assert len(np.unique(picture)) > 10
    shown = [text.get_text() for text in figure.axes[0].texts]
    assert (shown == [str(i) for i in range(classes**2)]) == (classes <= 24)


def test_a_cell_is_coloured_by_its_share_of_the_row_and_long_labels_are_cut():
    matrix = torch.tensor([[3, 1], [0, 2]])
    axes = confusion_figure(matrix, ["a" * 24, "b" * 25], "test").axes[0]
    assert axes.images[0].get_array().tolist() == [[0.75, 0.25], [0.0, 1.0]]
    assert axes.images[0].get_clim() == (0.0, 1.0)
    assert [text.get_color() for text in axes.texts] == ["white", INK, INK, "white"]
    assert {(text.get_ha(), text.get_va()) for text in axes.texts} == {("center", "center")}
    for ticks in (axes.get_xticklabels(), axes.get_yticklabels()):
        assert [text.get_text() for text in ticks] == ["a" * 24, "b" * 23 + "…"]
