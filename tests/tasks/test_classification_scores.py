"""Scores of a classifier against counts by hand."""

from __future__ import annotations

import pytest
import torch

from tfzoo.tasks.classification import ClassificationScores

LABEL = torch.tensor([0, 0, 0, 1, 1, 2])
TAKEN = torch.tensor([0, 0, 1, 1, 2, 2])


def scored(*parts: slice) -> ClassificationScores:
    scores = ClassificationScores(3)
    logits = torch.full((6, 3), -9.0).scatter(1, TAKEN[:, None], 9.0)
    for part in parts:
        scores.update(logits[part], LABEL[part], torch.arange(6.0)[part], torch.ones(6)[part])
    return scores


def test_scores_are_those_counted_by_hand() -> None:
    found = scored(slice(0, 6)).compute()
    assert float(found["accuracy"]) == pytest.approx(4 / 6)
    f1 = [2 * 1 * (2 / 3) / (1 + 2 / 3), 2 * 0.5 * 0.5 / 1, 2 * 0.5 * 1 / 1.5]
    assert float(found["macro_f1"]) == pytest.approx(sum(f1) / 3)
    assert float(found["calibration_error"]) == pytest.approx(
        2 / 6, abs=1e-4
    )  # always sure, right 4 times of 6
    assert float(found["loss"]) == pytest.approx(2.5)


def test_scores_of_parts_are_the_scores_of_the_whole() -> None:
    whole, parts = scored(slice(0, 6)).compute(), scored(slice(0, 1), slice(1, 6)).compute()
    for name, value in whole.items():
        torch.testing.assert_close(parts[name], value)


def test_rows_of_the_confusion_matrix_are_the_true_classes() -> None:
    assert scored(slice(0, 6)).confusion().tolist() == [[2, 1, 0], [0, 1, 1], [0, 0, 1]]
