"""A task as far as it scores, without a model."""

from types import MethodType, SimpleNamespace
from typing import Any

from tfzoo.learning.scoring import Scores


def task_with(cls: Any, **attributes: Any) -> Any:
    """What has the methods with which a class of tasks scores, and these attributes."""
    task = SimpleNamespace(percentages=cls.percentages, **attributes)
    for name in ("compute_scores", "columns_of", "score", "numbers", "errors", "losses"):
        if hasattr(cls, name):
            setattr(task, name, MethodType(getattr(cls, name), task))
    return task


def scores_in(task: Any, *batches: tuple[Any, ...]) -> Scores:
    """The scores of batches of what ``task.score`` gives."""
    scores, begin = Scores(), 0
    for loss, weight, *columns in batches:
        scores.add(range(begin, begin + len(columns[0])), loss, weight, *columns)
        begin += len(columns[0])
    return scores


def values_of(task: Any, *batches: tuple[Any, ...]) -> dict[str, float]:
    """The scores of these batches as numbers."""
    return {name: float(value) for name, value in scores_in(task, *batches).compute(task).items()}
