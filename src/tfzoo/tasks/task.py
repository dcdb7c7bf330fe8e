"""What every task does alike: how it is built from a recipe, what its checkpoints hold, and how it
is scored.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar, get_args, get_type_hints

import lightning.pytorch as L
import torch
from torch import Tensor, nn
from torchmetrics import SumMetric

from tfzoo import _adapters
from tfzoo.data.module import TextData
from tfzoo.errors import BadOption, BadRun, TfzooError
from tfzoo.models.fsdp import shard
from tfzoo.models.initialise import initialise
from tfzoo.runs import bounds, checkpoints
from tfzoo.tasks.compute import Compute
from tfzoo.tasks.inference_throughput import InferenceThroughput
from tfzoo.tasks.learner import Learner

FORMAT = 1
"""The version of what a checkpoint's key ``tfzoo`` holds."""

SMALL = 16
"""A vocabulary to try a model with."""

T = TypeVar("T")


class Task(Learner):
    """A model, its loss and its optimiser, for any ``lightning.pytorch.Trainer``.

    The random state of a step is a function of the seed, the batches trained on and the rank; what
    was drawn before does not matter. ``recipe`` is the configuration that a checkpoint carries,
    together with the tokenizer: all that is needed to build the task again.

    A task says what it is in its class attributes, trains in ``training_step`` and writes
    :meth:`sizes`, :meth:`restore_tokenizer`, :meth:`read`, :meth:`new_scores`, :meth:`score` and
    :meth:`rows`. Its constructor takes the model, the tokenizer and, after the star,
    its settings: dataclasses, a section of the recipe each.
    """

    name: ClassVar[str]
    Model: ClassVar[type[nn.Module]]
    Data: ClassVar[type[L.LightningDataModule]]
    tokenizer_of_data: ClassVar[str]
    """The attribute of the data that holds the tokenizer."""
    command: ClassVar[str]
    """The command that uses a trained run on text."""
    monitor: ClassVar[str]
    """The score of which more is better, by which the best checkpoint is chosen unless a recipe
    says another.
    """
    measures: ClassVar[tuple[str, ...]]
    """The scores of one set, by name."""
    of_training: ClassVar[frozenset[str]] = frozenset({"optim", "compute"})
    """The settings that a trained run has no more use for."""
    model: Any
    tokenizer: Any

    def __init__(
        self, model: nn.Module, tokenizer: Any, settings: Mapping[str, Any], seed: int
    ) -> None:
        super().__init__()
        self.model = model
        self.tokenizer = tokenizer
        self.optim = settings["optim"]
        self.compute: Compute = settings.get("compute", Compute())
        self.seed = seed
        config = {
            key: value
            for key, value in self.model.config.items()
            if key not in self.sizes(tokenizer)
        }
        self.recipe: dict[str, Any] = {"task": self.name, "seed": seed, "model": config}
        self.recipe |= {section: asdict(value) for section, value in settings.items()}
        self.scores = nn.ModuleList()
        self.items = nn.ModuleList()
        self.pace = InferenceThroughput()  # of the last scoring

    @classmethod
    def sizes(cls, tokenizer: Any = None, data: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """What the tokenizer says to the model's constructor, and a recipe therefore does not.

        Without a tokenizer, small numbers in their place: to see before any data is read whether a
            recipe's model can be built.
        """
        raise NotImplementedError

    @classmethod
    def settings(cls) -> dict[str, type]:
        """The sections of a recipe besides model and data: dataclasses after the star of the
        constructor.
        """
        hints = get_type_hints(cls.__init__)
        named = [
            key
            for key, one in inspect.signature(cls.__init__).parameters.items()
            if one.kind is one.KEYWORD_ONLY
        ]
        pairs = [(key, part) for key in named for part in (get_args(hints[key]) or (hints[key],))]
        return {key: part for key, part in pairs if isinstance(part, type) and is_dataclass(part)}

    @classmethod
    def build(cls, recipe: Mapping[str, Any], tokenizer: Any) -> Self:
        """The task that a recipe describes, its parameters started from the recipe's seed."""
        model, seed = (
            cls.Model(**cls.sizes(tokenizer), **recipe.get("model", {})),
            recipe.get("seed", 0),
        )
        initialise(model, seed)
        settings = {
            key: setting(**(recipe.get(key) or {})) for key, setting in cls.settings().items()
        }
        task = cls(model, tokenizer, seed=seed, **settings)
        task.recipe = dict(recipe)
        return task

    def tokenizer_state(self) -> dict[str, Any]:
        """Plain values that :meth:`restore_tokenizer` can make the tokenizer of."""
        state: dict[str, Any] = self.tokenizer.state()
        return state

    @classmethod
    def restore_tokenizer(cls, state: Mapping[str, Any]) -> Any:
        """What :meth:`tokenizer_state` came from."""
        raise NotImplementedError

    def read(self, batch: Any) -> object:
        """Pass a batch through the model as a training step does, for what can be seen on the way."""
        raise NotImplementedError

    def limits(self) -> tuple[int | None, int | None]:
        """The most tokens that the model can read of each side of its data; None: any number."""
        return None, None

    def new_scores(self) -> nn.Module:
        """All that is measured on one set; its ``compute()`` gives numbers by name, over all
        processes.
        """
        raise NotImplementedError

    def score(self, batch: Any, scores: Any) -> None:
        """Add a batch to the scores of its set."""
        raise NotImplementedError

    def rows(self, batch: Any) -> list[dict[str, Any]]:
        """What the model says of each item of a batch, beside what is known of it: the columns of
        ``tfzoo predict``.
        """
        raise NotImplementedError

    def verdict(self, data: Any, scores: Mapping[str, float]) -> str:
        """A line that says what the scores of the test are worth, where the data knows it."""
        return ""

    def draw(self, folder: Path) -> list[Path]:
        """Draw what was found in the last test into files of a folder."""
        return []

    @classmethod
    def load(cls, run: str | Path) -> Self:
        """A trained run, or one checkpoint of it, ready to use; a folder means its best checkpoint.

        Raises:
            BadRun: no such run; or the checkpoint is damaged, of another task, or not a checkpoint
                of tfzoo.
        """
        path = checkpoints.resolve(run)
        return cls.from_checkpoint(checkpoints.read(path, task=cls.name))

    @classmethod
    def from_checkpoint(cls, checkpoint: Mapping[str, Any]) -> Self:
        """The task that a checkpoint, already read and checked, holds."""
        kept, state = checkpoint["tfzoo"], checkpoint["state_dict"]
        try:
            bounds.numbers(
                kept["recipe"], "the checkpoint's recipe", layers=min(bounds.LAYERS, len(state))
            )
            tokenizer = cls.restore_tokenizer(kept["tokenizer"])
            with torch.device("meta"):  # no memory is taken before it is known to be what is stored
                bounds.fitting(
                    cls.Model(**cls.sizes(tokenizer), **kept["recipe"].get("model", {})), state
                )
            task = cls.build(kept["recipe"], tokenizer)
            task.load_state_dict(state)
            task.batches = int(kept["batches"])
        except TfzooError:
            raise
        except Exception as error:  # of any kind: whoever put it together chose it
            why = " ".join(str(error).split())[:200]
            raise BadRun(
                f"the checkpoint does not fit together: {type(error).__name__}: {why}"
            ) from None
        return task.eval()

    def configure_model(self) -> None:
        """Compute the model as ``compute`` says, spread over the processes where the strategy does
        that.
        """
        self.compute.apply(self.model)
        if self.device_mesh is not None:
            shard(self.model, self.device_mesh)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["tfzoo"] = {
            "format": FORMAT,
            "task": self.name,
            "recipe": self.recipe,
            "tokenizer": self.tokenizer_state(),
            "batches": self.batches,
            "skipped": self.skipped,
            "text": self._content(),
        }

    def setup(self, stage: str) -> None:
        """See that the model can read the data."""
        super().setup(stage)
        self.check(getattr(self.trainer, "datamodule", None))

    def check(self, data: Any) -> None:
        """See that the model can read this data.

        Raises:
            BadOption: the data is of another tokenizer, whose ids mean other words, or has a text
                that is longer than the model can read.
        """
        for name, texts in data.sets.items() if isinstance(data, TextData) else ():
            for lengths, limit in zip(texts.lengths(), self.limits(), strict=True):
                tokens = int(lengths.max(initial=0)) + 1  # with EOS, or with BOS
                if limit is not None and tokens > limit:
                    raise BadOption(
                        f"{name} has a text of {tokens:,} tokens, and the model's positions end at {limit:,}: raise model.max_length"
                    )
        theirs = getattr(data, self.tokenizer_of_data, None)
        if (
            theirs is not None
            and theirs is not self.tokenizer
            and theirs.state() != self.tokenizer_state()
        ):
            raise BadOption(
                f"the data was prepared with another tokenizer than the model's; set data.{self.tokenizer_of_data} = task.tokenizer before "
                "data.prepare_data()"
            )

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        if checkpoint["tfzoo"]["tokenizer"] != self.tokenizer_state():
            raise BadRun(
                "the checkpoint has another tokenizer than this training's data; go on with the text that it was trained on"
            )
        text = checkpoint["tfzoo"].get("text")
        if text and self._content() not in ("", text):
            raise BadRun(
                "training's text has changed since the checkpoint was written; go on with the text that it was trained on"
            )
        self.batches = checkpoint["tfzoo"]["batches"]
        self.skipped_steps.total = checkpoint["tfzoo"].get("skipped", 0)

    def _content(self) -> str:
        """A name for the text that is trained on, where the data has one."""
        return getattr(
            getattr(_adapters.trainer_of(self), "datamodule", None), "content", ""
        )  # `trainer` raises where there is none

    def on_validation_start(self) -> None:
        self._start_scoring(1)

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        self._score(batch, dataloader_idx)

    def on_validation_epoch_end(self) -> None:
        self._log_results("val", 0, prog_bar=True)

    def on_validation_end(self) -> None:
        self._restart_clock()  # validation is no training time

    def on_test_start(self) -> None:
        self._start_scoring(max(len(self.test_names()), 1))

    def test_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        self._score(batch, dataloader_idx)

    def on_test_epoch_end(self) -> None:
        names = self.test_names()
        for index in range(len(self.scores)):
            # One set is the test set, and so is one of that name among others.
            prefix = "test" if len(names) <= 1 or names[index] == "test" else f"test/{names[index]}"
            self._log_results(prefix, index)

    def test_names(self) -> list[str]:
        """The test sets of the data that is tested on; loaders of one's own have no names."""
        return list(getattr(getattr(self.trainer, "datamodule", None), "test_names", []))

    def predictions(self, data: Any, name: str) -> list[dict[str, Any]]:
        """:meth:`rows` of a whole test set, in its order."""
        return self.in_order(data.test_dataloader()[data.test_names.index(name)], self.rows)

    @torch.no_grad()
    def in_order(
        self,
        batches: Iterable[Any],
        use: Callable[[Any], list[T]],
        progress: Callable[[int], object] | None = None,
    ) -> list[T]:
        """What the model makes of each item of some batches, by the items' ``index``; ``progress``
        is told how many each batch finished.

        In evaluation mode; the mode is afterwards what it was.
        """
        found: dict[int, T] = {}
        training = self.training
        self.eval()
        try:
            for batch in batches:
                found |= zip(batch.index, use(batch.to(self.device)), strict=True)
                if progress is not None:
                    progress(len(batch.index))
        finally:
            self.train(training)
        return [found[index] for index in sorted(found)]

    def _start_scoring(self, sets: int) -> None:
        self.scores, self.items, self.pace = nn.ModuleList(), nn.ModuleList(), InferenceThroughput()
        for _ in range(sets):
            self._add_set()

    def _add_set(self) -> None:
        self.scores.append(self.new_scores().to(self.device))
        self.items.append(SumMetric().to(self.device))

    def _score(self, batch: Any, dataloader: int) -> None:
        while len(self.scores) <= dataloader:  # loaders of one's own have no names
            self._add_set()
        self.score(batch, self.scores[dataloader])
        self.items[dataloader].update(len(batch.index))  # type: ignore[operator]  # a metric has it

    def _log_results(self, prefix: str, index: int, prog_bar: bool = False) -> None:
        """Log the scores of a set, and how many items they are of, over all processes."""
        results: dict[str, Tensor] = self.scores[index].compute()  # type: ignore[operator]  # scores have it
        self.log_dict(
            {f"{prefix}/{name}": value for name, value in results.items()}, prog_bar=prog_bar
        )
        self.log(f"{prefix}/items", self.items[index].compute())  # type: ignore[operator]
