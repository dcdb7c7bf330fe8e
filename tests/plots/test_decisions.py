"""Pictures of what a classifier confuses, how sure it is, and what its threshold decides."""

import warnings

import numpy as np
import pytest
import torch

from tests.scored import task_with
from tfzoo.plots.decisions import calibration_figure, confusion_figure, threshold_figure
from tfzoo.plots.style import INK, pixels
from tfzoo.tasks.classification import ClassificationTask, reliability
from tfzoo.tasks.multilabel_classification import MultilabelClassificationTask


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


@pytest.mark.parametrize("texts", [1, 500])
def test_the_distance_from_the_diagonal_is_the_calibration_error(texts):
    draw = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(texts, 4, generator=draw)
    label = torch.randint(4, (texts,), generator=draw)
    confidence, predicted = logits.double().softmax(-1).max(-1)
    bins = reliability(confidence, predicted == label)
    task = task_with(ClassificationTask, labels=range(4))
    scores = task.compute_scores(confidence, predicted, label)
    shares = bins[:, 0] / texts
    error = float((shares * (bins[:, 1] - bins[:, 2]).abs()).sum())
    assert error == pytest.approx(float(scores["calibration_error"]), abs=1e-6)
    some = bins[:, 0] > 0
    ends = torch.arange(1, 16) / 15
    assert (bins[some, 1] <= ends[some] + 1e-6).all()
    assert (bins[some, 1] >= ends[some] - 1 / 15 - 1e-6).all()
    above, below = calibration_figure(bins, "$5").axes
    line = above.lines[1]
    assert list(line.get_xdata()) == bins[some, 1].tolist()
    assert list(line.get_ydata()) == bins[some, 2].tolist()
    assert [bar.get_height() for bar in below.patches] == pytest.approx(shares.tolist())


@pytest.mark.parametrize("threshold", [0.25, 0.8])
def test_the_curve_at_the_threshold_is_the_score(threshold):
    draw = torch.Generator().manual_seed(0)
    logits = torch.randn(99, 3, generator=draw).double()
    label = torch.randint(2, (99, 3), generator=draw).bool()
    task = task_with(MultilabelClassificationTask, threshold=torch.tensor(threshold))
    axes = threshold_figure(logits.sigmoid(), label, threshold, "test").axes[0]
    curves = {line.get_label(): line for line in axes.lines}
    at = round(threshold * 200)
    assert curves["micro F1"].get_xdata()[at] == pytest.approx(threshold)
    wanted = float(task.compute_scores(logits, label)["micro_f1"])
    assert curves["micro F1"].get_ydata()[at] == pytest.approx(wanted, abs=1e-6)
    precision, recall = (curves[name].get_ydata()[at] for name in ("precision", "recall"))
    assert 2 * precision * recall / (precision + recall) == pytest.approx(wanted, abs=1e-6)
