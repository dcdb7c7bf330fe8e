"""The evaluation of every task: scores of validation and test sets, and predictions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn
from torchmetrics import SumMetric

from tfzoo.renamed import metric_name
from tfzoo.tasks.inference_throughput import InferenceThroughput
from tfzoo.tasks.learner import Learner

T = TypeVar("T")


class Evaluator(Learner):
    """A :class:`Learner` that scores each validation and test set.

    A subclass writes :meth:`new_scores` and :meth:`score`, and :meth:`prediction_rows` for ``tfzoo
    predict``. Scores are reduced over all processes and logged as ``val/NAME`` and ``test/NAME``.
    If there are several test sets, each is logged as ``test/SET/NAME``, except one that is called
    ``test``, which is logged as ``test/NAME``.
    """

    score_names: ClassVar[tuple[str, ...]]
    """The names of the scores that :meth:`new_scores` computes for one data set."""
    scores: nn.ModuleList
    """The metrics of each data set of the last evaluation."""
    items: nn.ModuleList
    """The number of items, such as sentences, of each data set."""

    def __init__(self) -> None:
        super().__init__()
        self.throughput = InferenceThroughput()  # of the last evaluation

    def setup(self, stage: str) -> None:
        """Replace old names of metrics in the ``monitor`` of callbacks."""
        super().setup(stage)
        for callback in self.trainer.callbacks:  # type: ignore[attr-defined]  # a Trainer has them
            monitor = getattr(callback, "monitor", None)
            if isinstance(monitor, str):
                callback.monitor = metric_name(monitor, warn=True)

    @classmethod
    def logged_names(cls) -> list[str]:
        names = (*cls.score_names, "items")
        return [*(f"val/{name}" for name in names), *super().logged_names()]

    def new_scores(self) -> nn.Module:
        """Return the metrics of one data set, a module whose ``compute()`` returns a dict of
        values, reduced over all processes.
        """
        raise NotImplementedError

    def score(self, batch: Any, scores: Any) -> None:
        """Update ``scores``, the metrics of a data set, with a batch."""
        raise NotImplementedError

    def prediction_rows(self, batch: Any) -> list[dict[str, Any]]:
        """Return a dict for each item of a batch: input, prediction and reference, by the column
        names of ``tfzoo predict``; without those that the batch does not hold.
        """
        raise NotImplementedError

    def on_validation_start(self) -> None:
        self._start_scoring(1)

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        self._score(batch, dataloader_idx)

    def on_validation_epoch_end(self) -> None:
        self._log_results("val", 0, prog_bar=True)

    def on_validation_end(self) -> None:
        self._restart_clock()  # training throughput excludes validation

    def on_test_start(self) -> None:
        self._start_scoring(max(len(self.test_names()), 1))

    def test_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        self._score(batch, dataloader_idx)

    def on_test_epoch_end(self) -> None:
        names = self.test_names()
        for index in range(len(self.scores)):
            # The only test set, and one that is called "test", are logged as test/NAME.
            prefix = "test" if len(names) <= 1 or names[index] == "test" else f"test/{names[index]}"
            self._log_results(prefix, index)

    def test_names(self) -> list[str]:
        """The names of the test sets; empty if the data module has no ``test_names``."""
        return list(getattr(getattr(self.trainer, "datamodule", None), "test_names", []))

    def predict_step(
        self, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> list[dict[str, Any]]:
        """:meth:`prediction_rows` with ``index``, the row of each item in its data set."""
        rows = zip(batch.index, self.prediction_rows(batch), strict=True)
        return [{"index": index, **row} for index, row in rows]

    def predictions(self, data: Any, name: str) -> list[dict[str, Any]]:
        """:meth:`prediction_rows` of a whole test set, in its order."""
        loader = data.test_dataloader()[data.test_names.index(name)]
        return self.in_order(loader, self.prediction_rows)

    @torch.no_grad()
    def in_order(
        self,
        batches: Iterable[Any],
        function: Callable[[Any], list[T]],
        progress: Callable[[int], object] | None = None,
    ) -> list[T]:
        """Apply ``function`` to each batch in evaluation mode, without gradients; return the
        results sorted by the items' ``index``. ``progress`` is called with the number of items of
        each finished batch.
        """
        found: dict[int, T] = {}
        training = self.training
        self.eval()
        try:
            for batch in batches:
                found |= zip(batch.index, function(batch.to(self.device)), strict=True)
                if progress is not None:
                    progress(len(batch.index))
        finally:
            self.train(training)
        return [found[index] for index in sorted(found)]

    def _start_scoring(self, sets: int) -> None:
        self.scores, self.items = nn.ModuleList(), nn.ModuleList()
        self.throughput = InferenceThroughput()
        for _ in range(sets):
            self._add_set()

    def _add_set(self) -> None:
        self.scores.append(self.new_scores().to(self.device))
        self.items.append(SumMetric().to(self.device))

    def _score(self, batch: Any, dataloader: int) -> None:
        while len(self.scores) <= dataloader:  # more data loaders than `test_names`
            self._add_set()
        self.score(batch, self.scores[dataloader])
        self.items[dataloader].update(len(batch.index))  # type: ignore[operator]  # a metric has it

    def _log_results(self, prefix: str, index: int, prog_bar: bool = False) -> None:
        """Log the scores of a data set and its number of items, over all processes."""
        results: dict[str, Tensor] = self.scores[index].compute()  # type: ignore[operator]  # scores have it
        self.log_dict(
            {f"{prefix}/{name}": value for name, value in results.items()}, prog_bar=prog_bar
        )
        self.log(f"{prefix}/items", self.items[index].compute())  # type: ignore[operator]


def rows_of(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """The rows of a table, without its empty columns.

    >>> rows_of({"text": [], "score": [0.5, 0.25]})
    [{'score': 0.5}, {'score': 0.25}]
    """
    kept = {name: column for name, column in columns.items() if len(column)}
    return [dict(zip(kept, row, strict=True)) for row in zip(*kept.values(), strict=True)]
