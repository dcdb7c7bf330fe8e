"""Pictures of how sure a model is, and of what its threshold decides."""

import pytest
import torch

from tfzoo.plots.calibration import calibration_figure
from tfzoo.plots.threshold import threshold_figure
from tfzoo.tasks.classification import ClassificationScores
from tfzoo.tasks.multilabel_classification import MultilabelScores


@pytest.mark.parametrize("texts", [1, 500])
def test_the_distance_from_the_diagonal_is_the_calibration_error(texts):
    draw = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(texts, 4, generator=draw)
    scores = ClassificationScores(4)
    label = torch.randint(4, (texts,), generator=draw)
    scores.update(logits, label, torch.zeros(texts), torch.ones(texts))
    bins = scores.reliability()
    shares = bins[:, 0] / texts
    error = float((shares * (bins[:, 1] - bins[:, 2]).abs()).sum())
    assert error == pytest.approx(float(scores.compute()["calibration_error"]), abs=1e-6)
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
    scores = MultilabelScores(3, torch.tensor(threshold))
    scores.update(torch.randn(99, 3, generator=draw), torch.randint(2, (99, 3), generator=draw))
    axes = threshold_figure(*scores.found(), threshold, "test").axes[0]
    curves = {line.get_label(): line for line in axes.lines}
    at = round(threshold * 200)
    assert curves["micro F1"].get_xdata()[at] == pytest.approx(threshold)
    wanted = float(scores.compute()["micro_f1"])
    assert curves["micro F1"].get_ydata()[at] == pytest.approx(wanted, abs=1e-6)
    precision, recall = (curves[name].get_ydata()[at] for name in ("precision", "recall"))
    assert 2 * precision * recall / (precision + recall) == pytest.approx(wanted, abs=1e-6)


def test_labels_that_nothing_has_are_drawn():
    nothing = torch.zeros(4, 2, dtype=torch.int64)
    axes = threshold_figure(torch.full((4, 2), 0.3), nothing, 0.5, "test").axes[0]
    assert all(abs(line.get_ydata()[0]) <= 1 for line in axes.lines)  # none of them is NaN
