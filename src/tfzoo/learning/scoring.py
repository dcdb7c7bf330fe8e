"""Scores: their names, directions and units, how they are counted and computed."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import lightning.pytorch as L
import numpy as np
import torch
from torch import Tensor, distributed

from tfzoo.base import adapters
from tfzoo.base.registry import class_path
from tfzoo.errors import BadData, BadOption
from tfzoo.plots.style import log_figure, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DRAWS = 500
COVERAGE = 0.95

Figures = dict[str, Callable[[], "Figure"]]
"""What draws pictures, by name."""


class Scores:
    """What a task counts of a data set: the sum of losses and of the weights to divide it by, and
    columns with a row for each text, in float64 or whole numbers on the CPU.
    """

    def __init__(self) -> None:
        self.sums = torch.zeros(2, dtype=torch.float64)
        self.batches: list[list[Tensor]] = []

    def add(
        self, index: Sequence[int], loss: Tensor, weight: Tensor | float, *columns: Tensor
    ) -> None:
        """Add a batch: the rows of its texts in their data set; losses and their weights, of any
        shape; and columns ``(b ...)``.
        """
        self.sums += torch.stack([on_cpu(loss).double().sum(), on_cpu(weight).double().sum()])
        self.batches.append([on_cpu(index), *map(on_cpu, columns)])

    @cached_property
    def gathered(self) -> tuple[Tensor, list[Tensor]]:
        """The sums and the columns of all processes, after the last :meth:`add`, in the order of
        the data set. Every process must ask for it.
        """
        every: list[Any] = [(self.sums, self.batches)]
        if distributed.is_available() and distributed.is_initialized():
            every = every * distributed.get_world_size()
            distributed.all_gather_object(every, (self.sums, self.batches))
        batches = [batch for _, held in every for batch in held]
        index, *columns = map(torch.cat, zip(*batches, strict=True)) if batches else [on_cpu([])]
        order = index.argsort(stable=True)
        return sum(sums for sums, _ in every), [column[order] for column in (index, *columns)]

    @property
    def columns(self) -> list[Tensor]:
        """The columns of all texts."""
        return self.gathered[1][1:]

    def __len__(self) -> int:
        return len(self.gathered[1][0])

    def compute(self, task: Any) -> dict[str, Tensor]:
        """The mean ``loss``, and what ``task.compute_scores`` makes of the columns: of a share of
        texts, which it gives as whether each counts, the mean.
        """
        loss, weight = self.gathered[0]
        found = task.compute_scores(*self.columns) if self.columns else {}
        return {"loss": loss / weight} | {
            name: percent(task, name) * value.double().mean() for name, value in found.items()
        }

    def intervals(self, task: Any) -> dict[str, tuple[float, float]]:
        """How far each score would be from this one on other texts of the same kind, with 95 %
        coverage: of a share of texts Wilson's interval (1927); of others what lies between these
        percentiles of the score of as many texts, drawn with replacement (percentile bootstrap;
        Efron and Tibshirani 1993, section 13.3). There are none of fewer than two texts.
        """
        from scipy.stats import binomtest

        n, columns = len(self), self.columns
        if n < 2:
            return {}
        draws = torch.from_numpy(np.random.default_rng(0).integers(n, size=(DRAWS, n)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as of a drawn sample without variance
            drawn = [task.compute_scores(*(column[rows] for column in columns)) for rows in draws]
        found = {}
        for name, value in task.compute_scores(*columns).items():
            if value.dtype == torch.bool:
                wilson = binomtest(int(value.sum()), n).proportion_ci(COVERAGE, "wilson")
                low, high = (percent(task, name) * one for one in wilson)
            else:
                values = [float(scores[name]) for scores in drawn if name in scores]
                low, high = np.quantile(values, ((1 - COVERAGE) / 2, (1 + COVERAGE) / 2))
            if np.isfinite((low, high)).all():
                found[name] = float(low), float(high)
        return found


def logs_now(trainer: L.Trainer) -> bool:
    """Whether loggers get what this step logs: every few steps, and where training ends."""
    every, step = getattr(trainer, "log_every_n_steps", 0), trainer.global_step + 1
    ends = trainer.should_stop or step == trainer.estimated_stepping_batches
    return bool(every) and (ends or step % every == 0)


class Scored(L.LightningModule):
    """The part of a task that scores data sets, over all processes: Lightning's hooks of validation
    and test.
    """

    Batch: ClassVar[type] = object
    """The class of the batches that the data module's loaders give."""
    compute_scores: Callable[..., dict[str, Tensor]]
    """A method that takes the columns of a data set, as :meth:`score` returns them, and returns its
    scores besides ``loss``, by name. One that is a share of texts it returns as whether each
    counts, ``(b)``; its interval is then that of a share.
    """
    higher_is_better: ClassVar[Mapping[str, bool]]
    """The scores of one data set, ``loss`` and those that :meth:`compute_scores` computes, and
    which way is better.
    """
    shares: ClassVar[str] = ""
    """Those from 0 to 1 that are printed in percent, with spaces between them. As of ``about``, it
    is read from the source, and so is the next one.
    """
    percentages: ClassVar[str] = ""
    """Those from 0 to 100 that are printed in percent."""
    monitor: ClassVar[str]
    """The default of ``checkpoint.monitor``: the score that selects the best checkpoint."""
    training_names: ClassVar[tuple[str, ...]] = (
        *("loss", "lr", "grad_norm", "skipped", "tokens_per_second"),
        "auxiliary_loss",
    )
    """The names of what training logs, the last one where the model has such losses."""

    def __init__(self) -> None:
        super().__init__()
        self.pictures: Figures = {}
        """Of the last test, by the names of their files."""
        self.scores = [Scores()]

    @classmethod
    def logged_names(cls) -> list[str]:
        """The metrics that a callback can monitor."""
        scores = (*cls.higher_is_better, "items")
        return [
            *(f"val/{name}" for name in scores),
            *(f"train/{name}" for name in cls.training_names),
        ]

    @classmethod
    def mode(cls, metric: str) -> Literal["min", "max"]:
        """Whether a lower or a higher value of a metric such as ``val/loss`` is better."""
        score = metric.rpartition("/")[2]
        return "max" if cls.higher_is_better.get(score, score != "loss") else "min"

    @classmethod
    def check_mode(cls, metric: str, mode: str) -> None:
        """Raise a BadOption if a score is taken the wrong way round: ``max`` for ``val/loss``."""
        right = cls.mode(metric)
        if metric.rpartition("/")[2] in cls.higher_is_better and mode != right:
            better = "lower" if right == "min" else "higher"
            raise BadOption(f"{metric} is better the {better} it is: set mode to {right}")

    @classmethod
    def measures(cls, score: str, dataset: Any, split: str) -> bool:
        """Whether a score is computed on this split of a built-in data set."""
        return score in cls.higher_is_better

    @property
    def untrained_loss(self) -> float | None:
        """``log(classes)``: the loss of a model that gives all classes, or all words, the same
        probability; None if the task has no such loss.
        """
        return None

    @property
    def untrained_scores(self) -> dict[str, float]:
        """What such a model scores, as far as it is known: in a sweep it stands for a score that is
        not finite.
        """
        found = {name: 0.0 for name, higher in self.higher_is_better.items() if higher}
        if (loss := self.untrained_loss) is not None:
            found |= {"loss": loss, "perplexity": math.exp(loss), "accuracy": math.exp(-loss)}
        found["auroc"] = 0.5
        return {name: score for name, score in found.items() if name in self.higher_is_better}

    def constant_loss(self, data: Any) -> float | None:
        """The smallest loss that the same prediction for every label in validation reaches, such
        as the entropy of its classes, or of its tokens; None if there is none. A run of a sweep
        whose last ``val/loss`` is no smaller has learnt nothing.
        """
        return None

    def score(self, batch: Any) -> tuple[Any, ...]:
        """The losses of a batch and the weights to divide their sum by; and columns ``(b ...)`` of
        what :meth:`compute_scores` needs of each text.
        """
        raise NotImplementedError

    def figures(self, columns: Sequence[Tensor], title: str) -> Figures:
        """What draws the pictures of the columns of a test set, by name."""
        return {}

    def check_batch(self, batch: Any) -> None:
        """Raise BadData unless a loader gives what the task reads."""
        if not isinstance(batch, self.Batch):
            makes = f"={class_path(self.Batch)}.collate" if hasattr(self.Batch, "collate") else ""
            raise BadData(
                f"a batch of {type(self).__name__} is a {class_path(self.Batch)}, not a "
                f"{type(batch).__name__}: give the DataLoader a collate_fn{makes or ' for it'}"
            )

    def on_validation_start(self) -> None:
        self.scores = [Scores()]

    def on_test_start(self) -> None:
        known = getattr(getattr(self.trainer, "datamodule", None), "test_names", ())
        self.scores = [Scores() for _ in known or [""]]

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        """Score a batch of a data set."""
        self.check_batch(batch)
        while len(self.scores) <= dataloader_idx:  # more data loaders than `test_names`
            self.scores.append(Scores())
        self.scores[dataloader_idx].add(batch.index, *self.score(batch))

    test_step = validation_step

    def on_validation_epoch_end(self) -> None:
        for index in range(len(self.scores)):
            self.log_scores(f"val/{index}" if index else "val", index, prog_bar=not index)

    def log_scores(self, prefix: str, index: int, prog_bar: bool = False) -> None:
        """Log the scores of a data set and its number of items, over all processes."""
        scores = self.scores[index]
        values = {f"{prefix}/{name}": value for name, value in scores.compute(self).items()}
        self.log_dict(values, prog_bar=prog_bar)
        self.log(f"{prefix}/items", float(len(scores)))
        adapters.report_once(self.trainer)

    def test_names(self) -> list[str]:
        """The names of the test sets that are scored; of loaders without one, their number."""
        known = getattr(getattr(self.trainer, "datamodule", None), "test_names", ())
        count = len(self.scores)
        return (
            ["test"] if not known and count == 1 else [*known, *map(str, range(len(known), count))]
        )

    def test_prefix(self, index: int) -> str:
        """The only test set, and one that is called "test", are logged as test/NAME."""
        names = self.test_names()
        return "test" if len(names) == 1 or names[index] == "test" else f"test/{names[index]}"

    def on_test_epoch_end(self) -> None:
        """Log the scores of all test sets, and their pictures."""
        self.pictures = {}
        for index, name in enumerate(self.test_names()):
            self.log_scores(self.test_prefix(index), index)
            scores, alone = self.scores[index], self.test_prefix(index) == "test"
            figures = self.figures(scores.columns, name) if len(scores) else {}
            for kind, draw in figures.items() if self.trainer.is_global_zero else ():
                self.pictures[kind if alone else f"{kind}_{name}"] = draw
                log_figure(self.trainer.loggers, f"{name}/{kind}", draw, self.trainer.global_step)

    def save_figures(self, folder: Path) -> list[Path]:
        """Save the pictures of the last test in a folder, and return their paths: ``KIND.svg``, or
        ``KIND_SET.svg`` if there are several test sets.
        """
        paths = {folder / f"{name}.svg": draw for name, draw in self.pictures.items()}
        for path, draw in paths.items():
            save(draw(), path)
        return [*paths]

    def intervals(self) -> dict[str, tuple[float, float]]:
        """The intervals of the scores of the last test (:meth:`Scores.intervals`), by the names
        under which they are logged.
        """
        return {
            f"{self.test_prefix(index)}/{name}": interval
            for index, scores in enumerate(self.scores)
            for name, interval in scores.intervals(self).items()
        }


def percent(task: Any, name: str) -> int:
    """What a share is multiplied by."""
    return 100 if name in task.percentages.split() else 1


def on_cpu(values: Any) -> Tensor:
    """Values on the CPU, in float64 unless they are whole numbers or boolean."""
    held = torch.as_tensor(values).detach().cpu()
    return held.double() if held.is_floating_point() else held


def sums_by(owner: Tensor, rows: int, *values: Tensor) -> list[Tensor]:
    """The sums of the values that belong to each row, ``owner`` ``(t)``: ``(t) -> (b)`` each."""
    zeros = torch.zeros(rows, dtype=torch.float64)
    return [zeros.index_add(0, owner.cpu(), on_cpu(one).double()) for one in values]
