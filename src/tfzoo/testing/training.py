"""Contracts of what is no module of a model: optimisers, schedules, tokenizers, data sets and
tasks, these each against its own ``example``.
"""

import io
import json
import math
import re
from collections.abc import Mapping
from contextlib import redirect_stderr
from copy import deepcopy
from dataclasses import asdict
from functools import cache
from itertools import chain, combinations
from typing import Any

import torch
from torch import Tensor, nn

from tfzoo.base.registry import Entry, registry
from tfzoo.base.special_ids import SpecialIds
from tfzoo.base.terminal import silence_lightning
from tfzoo.errors import BadOption
from tfzoo.learning.scoring import Scores
from tfzoo.testing.contract import NotTried, Violation, assert_same, contract, trait
from tfzoo.testing.samples import build, reloaded

LR, DECAY = 0.01, 0.1


class Trained(nn.Module):
    """An embedding, two layers of a matrix, a bias and a norm, and an output projection, with the
    optimiser of an entry.
    """

    def __init__(self, entry: Entry, options: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        torch.default_generator.manual_seed(1)
        self.embedding = nn.Embedding(5, 4)
        layers = [nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Tanh()) for _ in range(2)]
        self.layers = nn.ModuleList(layers)
        self.output = nn.Linear(4, 5, bias=False)
        self.optimizer = build(entry, options).configure(self, LR, DECAY)

    def step(self, number: int = 0, size: float = 1.0) -> None:
        """One step on random gradients of this number and size."""
        torch.default_generator.manual_seed(number)
        for parameter in self.parameters():
            parameter.grad = torch.randn_like(parameter) * size
        self.optimizer.step()

    def weights(self) -> dict[str, Tensor]:
        """A copy of each parameter, by name."""
        return {name: one.detach().clone() for name, one in self.named_parameters()}


def trained_weights(entry: Entry, options: Mapping[str, Any] | None) -> list[Tensor]:
    """The weights after two steps."""
    trained = Trained(entry, options)
    for number in range(2):
        trained.step(number)
    return list(trained.weights().values())


@contract("optimizer")
def a_step_moves_every_parameter(entry: Entry) -> None:
    """A step moves every parameter of the module against its gradient."""
    trained = Trained(entry)
    before = trained.weights()
    trained.step()
    for name, parameter in trained.named_parameters():
        moved = parameter.detach() - before[name]
        if parameter.grad is None or not (moved * parameter.grad).sum() < 0:
            raise Violation(f"{name} is not moved against its gradient")


@contract("optimizer")
def the_state_dict_restores_it(entry: Entry) -> None:
    """With a saved and loaded ``state_dict``, training continues bit for bit."""
    one, other = Trained(entry), Trained(entry)
    for number in range(3):
        one.step(number)
    other.load_state_dict(deepcopy(one.state_dict()))
    other.optimizer.load_state_dict(reloaded(one.optimizer.state_dict()))
    for number in range(3, 6):
        one.step(number)
        other.step(number)
    for name, wanted in one.weights().items():
        assert_same(other.get_parameter(name), wanted, f"training goes on, {name}", 0.0)


@contract("optimizer")
def weight_decay_spares_vectors(entry: Entry) -> None:
    """With gradients of 0, weight decay moves parameters of two or more dimensions towards 0, and
    biases and the weights of norms not at all.
    """
    trained = Trained(entry)
    before = trained.weights()
    trained.step(size=0.0)
    for name, parameter in trained.named_parameters():
        if parameter.dim() <= 1:
            assert_same(parameter, before[name], f"{name}, under weight decay", 0.0)
        elif not parameter.norm() < before[name].norm():
            raise Violation(f"weight decay does not shrink {name}")


UPDATES = (*range(1, 102), 1000, 4000, 10_000, 100_000)


def factors(entry: Entry, options: Mapping[str, Any] | None) -> list[Tensor]:
    """The factor at each of many updates, near and far."""
    schedule = build(entry, options)
    return [torch.tensor([schedule.factor(update) for update in UPDATES])]


@contract("schedule")
def a_factor_of_the_peak_at_every_update(entry: Entry) -> None:
    """``factor(update)`` is between 0 and 1 for every update from 1 on, over 0 at the first and
    over 0.9 at some.
    """
    factors = [build(entry).factor(update) for update in UPDATES]
    for update, factor in zip(UPDATES, factors, strict=True):
        if not (math.isfinite(factor) and 0 <= factor <= 1):
            raise Violation(f"factor({update}) = {factor}, which is not between 0 and 1")
    if not factors[0] > 0:
        raise Violation("the first update, number 1, changes nothing")
    if not max(factors) > 0.9:
        raise Violation(f"far from the peak all the time: at most {max(factors)}")


@contract("schedule")
def the_same_update_has_the_same_factor(entry: Entry) -> None:
    """``factor`` depends on the update alone, so that training can resume."""
    used, again = build(entry), build(entry)
    forwards = [used.factor(update) for update in UPDATES]
    if forwards[::-1] != [again.factor(update) for update in reversed(UPDATES)]:
        raise Violation("a factor depends on what was asked before")


LINES = [
    f"a small cat number {n} sat on mat number {n % 7}, and the dog saw it." for n in range(300)
]
NEW = ["the cat saw a dog", "mat 12, cat 7.", "", "dog"]


def trained(entry: Entry) -> Any:
    """A tokenizer that knows LINES."""
    if "published" in entry.traits:
        raise NotTried("it does what the published model's does")
    tokenizer = build(entry)
    tokenizer.train(LINES)
    return tokenizer


@trait("tokenizer", "published")
def wants_a_folder(entry: Entry) -> bool:
    """Without a folder it is refused."""
    try:
        build(entry).train(LINES)
    except BadOption:
        return True
    return False


@contract("tokenizer")
def decoding_gives_back_what_was_encoded(entry: Entry) -> None:
    """``decode`` gives back the text that ``encode`` got."""
    tokenizer = trained(entry)
    for text, back in zip(NEW, tokenizer.decode(tokenizer.encode(NEW)), strict=True):
        if text != back:
            raise Violation(f"{text!r} comes back as {back!r}")


@contract("tokenizer")
def ids_are_in_the_vocabulary_and_leave_out_the_special_ones(entry: Entry) -> None:
    """``encode`` gives ids of the vocabulary, none of ``special``; ``decode`` drops those."""
    tokenizer = trained(entry)
    special = getattr(tokenizer, "special", None)
    if not isinstance(special, SpecialIds) or not max(special.every) < len(tokenizer):
        raise Violation(f"special is {special}: a tfzoo.SpecialIds of ids of the vocabulary")
    for text, ids in zip(NEW, tokenizer.encode(NEW), strict=True):
        if not all(0 <= one < len(tokenizer) and one not in special.every for one in ids):
            raise Violation(
                f"{text!r} is encoded as {ids}, with a vocabulary of {len(tokenizer)} "
                f"of which {sorted(special.every)} are special"
            )
    padded = [[special.bos, *ids, special.eos, special.fill] for ids in tokenizer.encode(NEW)]
    if tokenizer.decode(padded) != NEW:
        raise Violation("special ids are not left out in decoding")


@contract("tokenizer")
def the_state_restores_it(entry: Entry) -> None:
    """``state`` is a string from which ``restore`` makes a tokenizer that encodes the same, as does
    one that is trained on the same lines.
    """
    tokenizer, other = trained(entry), build(entry)
    other.restore(tokenizer.state())
    if not isinstance(tokenizer.state(), str):
        raise Violation("state() is not a string")
    for again in (other, trained(entry)):
        if again.encode(NEW) != tokenizer.encode(NEW) or len(again) != len(tokenizer):
            raise Violation("a tokenizer that is restored or trained again encodes otherwise")


Splits = dict[str, list[tuple[str, str]]]


@cache
def splits_of(name: str) -> Splits:
    """The pairs of each split; drawn once."""
    splits: Splits = build(registry("dataset").entry(name)).splits(1)
    return splits


@contract("dataset")
def there_are_pairs_to_train_on_to_validate_on_and_to_test_on(entry: Entry) -> None:
    """There are splits ``train``, ``val`` and ``test`` of pairs of lines, and labels or a pair of
    languages.
    """
    splits, made = splits_of(entry.name), build(entry)
    for split in ("train", "val", "test"):
        if not splits.get(split):
            raise Violation(f"there is no split {split!r}")
    for pair in chain(*splits.values()):
        if len(pair) != 2 or not all(text.strip() and "\n" not in text for text in pair):
            raise Violation(f"{pair!r} is no pair of lines")
    said, known = {label for _, label in chain(*splits.values())}, getattr(made, "labels", None)
    if known is None and len(getattr(made, "languages", ())) != 2:
        raise Violation("it has neither labels nor a pair of languages")
    if not known:  # (): the labels are numbers
        return
    several = {
        one for cell in said for one in ([cell] if cell in known else re.split("[, ]", cell))
    }
    if several != {*known}:
        which = "is not in labels" if several - {*known} else "has no row"
        first = min(several - {*known} or {*known} - several)
        raise Violation(f"the label {first!r} {which}")


@contract("dataset")
def no_sentence_is_in_two_splits(entry: Entry) -> None:
    """No source is in two splits."""
    for one, other in combinations(splits_of(entry.name).items(), 2):
        shared = {source for source, _ in one[1]} & {source for source, _ in other[1]}
        if shared:
            raise Violation(f"{one[0]} and {other[0]} share {min(shared)!r}")


@contract("dataset")
def the_seed_determines_the_data(entry: Entry) -> None:
    """One seed gives one data set, another seed another."""
    few = {"train": 200} if "train" in entry.options else {}
    one, same, other = (build(entry, few).splits(seed) for seed in (1, 1, 2))
    if one != same:
        raise Violation("one seed gives two data sets")
    if one["train"] == other["train"]:
        raise Violation("two seeds give one data set")


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
