"""Contracts of tasks, each held against the task's own ``example``."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from contextlib import redirect_stderr
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from tfzoo.base.registry import Entry
from tfzoo.base.terminal import silence_lightning
from tfzoo.learning.scoring import Scores
from tfzoo.testing.contract import Violation, assert_same, contract

SMALL: Mapping[str, Any] = {
    "seed": 0,
    "model": {"dim": 16, "heads": 2, "layers": 1, "dropout": 0.0},
    "optim": {"lr": 0.01, "schedule": "constant"},
}
"""What the example's recipe does not say: a model that is built and trained in no time."""
EXAMPLES = 8
"""How many rows of a split are looked at."""
STEPS = 40
"""Training steps after which the loss must be smaller; a fifth smaller ends training before."""


def example(entry: Entry) -> tuple[Any, Any]:
    """The task of the example, in evaluation mode, and its data."""
    cls: Any = entry.cls
    recipe = {"task": entry.name, **SMALL, **cls.example}
    data = cls.Data(seed=0, **recipe["data"])
    with redirect_stderr(io.StringIO()):  # what the data has to say of itself
        data.prepare_data()
    data.setup()
    return cls.build(recipe, getattr(data, cls.tokenizer_of_data)).double().eval(), data


def scores_of(task: Any, batches: list[Any]) -> dict[str, Tensor]:
    """The scores of a data set that comes in these batches."""
    scores = Scores()
    with torch.no_grad():
        for batch in batches:
            scores.add(batch.index, *task.score(batch))
    return scores.compute(task)


def assert_same_scores(found: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> None:
    """Raise Violation unless the scores are the same; one that is undefined is so in both."""
    for name, value in wanted.items():
        if not (value.isnan() and found[name].isnan()):
            assert_same(found[name], value, name)


def batches_of(data: Any, sizes: list[int]) -> list[Any]:
    """The first rows of the validation set in batches of these sizes, in order."""
    rows = iter(range(len(data.sets["val"])))
    return [data.sets["val"][[next(rows) for _ in range(size)]] for size in sizes]


@contract("task")
def scores_are_those_that_it_declares(entry: Entry) -> None:
    """``compute_scores`` computes nothing that ``higher_is_better`` does not list, which also lists
    ``monitor``.
    """
    task, data = example(entry)
    found = scores_of(task, batches_of(data, [EXAMPLES]))
    declared = set(task.higher_is_better)
    if found.keys() - declared:
        raise Violation(f"not declared: {', '.join(sorted(found.keys() - declared))}")
    split, _, name = task.monitor.partition("/")
    if split != "val" or name not in declared:
        raise Violation(f"monitor {task.monitor!r} is no score of validation")


@contract("task")
def padding_has_no_influence_on_scores(entry: Entry) -> None:
    """The scores of texts in one batch, where short ones are padded, are those of each alone, in
    whatever order they come.
    """
    task, data = example(entry)
    alone, together = (batches_of(data, sizes) for sizes in ([1] * EXAMPLES, [EXAMPLES]))
    assert_same_scores(scores_of(task, alone[::-1]), scores_of(task, together))


@contract("task")
def a_checkpoint_alone_restores_it(entry: Entry) -> None:
    """A task that is built from what a checkpoint holds has the same scores and settings."""
    task, data = example(entry)
    kept = {"tfzoo": task.checkpoint_entry(), "state_dict": task.state_dict()}
    again = type(task).from_checkpoint(kept).double()
    if again.recipe != task.recipe:
        raise Violation("the recipe is another one")
    batches = batches_of(data, [EXAMPLES])
    assert_same_scores(scores_of(again, batches), scores_of(task, batches))


@contract("task")
def answers_have_the_declared_form(entry: Entry) -> None:
    """``predict`` gives an ``Answer`` for each text, which JSON can hold; the command writes a line
    for each.
    """
    task, data = example(entry)
    texts = list(batches_of(data, [EXAMPLES])[0].source_text)
    answers = task.predict(texts)
    if [type(answer) for answer in answers] != [task.Answer] * len(texts):
        raise Violation(f"predict must give a list with a {task.Answer.__name__} for each text")
    for answer in answers:
        json.dumps(asdict(answer))
        if not isinstance(task.output_line(answer), str):
            raise Violation("output_line must give a text")


@contract("task")
def training_lowers_the_loss(entry: Entry) -> None:
    """After some steps the training loss is smaller than at the start, and finite."""
    from lightning.pytorch import Callback, Trainer

    task, data = example(entry)
    losses: list[float] = []

    class Losses(Callback):
        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            losses.append(float(trainer.callback_metrics["train/loss"]))
            trainer.should_stop = len(losses) >= 10 and sum(losses[-5:]) < 0.8 * sum(losses[:5])

    silence_lightning()
    trainer = Trainer(
        accelerator="cpu",
        devices=1,
        max_steps=STEPS,
        limit_val_batches=0,
        log_every_n_steps=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[Losses()],
    )
    trainer.fit(task.train(), datamodule=data)
    first, last = sum(losses[:5]) / 5, sum(losses[-5:]) / 5
    if not last < first:
        raise Violation(f"{first:.4g} in the first steps, {last:.4g} after {len(losses)}")
