"""The confusion matrix of a classifier; its other scores: test_scores.py."""

import torch

from tfzoo.tasks.classification import ClassificationScores


def test_rows_of_the_confusion_matrix_are_the_true_classes():
    scores, taken = ClassificationScores(3), torch.tensor([0, 0, 1, 1, 2, 2])
    logits = torch.full((6, 3), -9.0).scatter(1, taken[:, None], 9.0)
    scores.update(logits, torch.tensor([0, 0, 0, 1, 1, 2]), torch.arange(6.0), torch.ones(6))
    assert scores.confusion().tolist() == [[2, 1, 0], [0, 1, 1], [0, 0, 1]]
