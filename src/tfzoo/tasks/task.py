"""What all tasks share: how they are built from a recipe, and what their checkpoints hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Self

import lightning.pytorch as L
from torch import nn

from tfzoo import _adapters
from tfzoo.data.module import TextData
from tfzoo.errors import BadOption, BadRun, TfzooError
from tfzoo.models.fsdp import shard
from tfzoo.models.initialise import initialise
from tfzoo.runs import bounds, memory
from tfzoo.tasks import settings as task_settings
from tfzoo.tasks.compute import Compute
from tfzoo.tasks.foreign import class_path
from tfzoo.tasks.pretrained import Pretrained
from tfzoo.values import LAYERS, check_number, leaves

FORMAT = 2
"""The version of the layout of the entry ``tfzoo`` in a checkpoint."""

PLACEHOLDER_SIZE = 16
"""The vocabulary size with which a model is built before the tokenizer is known."""


class Task(Pretrained):
    """A LightningModule that holds a model and defines its loss, scores and optimiser. It runs in
    any ``lightning.pytorch.Trainer``.

    **To write a task**, derive from this class. A subclass sets the class attributes below, and
    writes ``training_step`` (see :class:`~tfzoo.tasks.learner.Learner`), :meth:`model_arguments`,
    :meth:`restore_tokenizer`, :meth:`new_scores`, :meth:`score` and :meth:`prediction_rows`;
    :meth:`forward_batch` for ``--explain``. Its constructor takes the model and the tokenizer, then
    the settings and ``seed`` as keyword arguments. A setting that is a dataclass becomes a section
    of the recipe; all others are numbers, strings, lists or dicts. A subclass may add settings and
    pass the rest to its parent: ``def __init__(self, *args, gamma: float = 2.0, **kwargs)``. A
    checkpoint stores all settings, and :meth:`load` restores them.

    ``recipe`` is the configuration of the task. A checkpoint stores it with the tokenizer, and
    :meth:`build` makes the task from both. The random seed of each training batch is derived from
    ``seed``, the number of batches trained on, and the rank.

    ``foreign`` is ``""`` if the model is an instance of ``Model``; otherwise the import path of its
    class. :meth:`load` cannot build such a model from a checkpoint: it takes one as an argument.

    Args:
        settings: the dataclass settings by name.

    Raises:
        BadOption: a setting or a size of the model that a checkpoint could not restore.
    """

    name: ClassVar[str]
    Model: ClassVar[type[nn.Module]]
    Data: ClassVar[type[L.LightningDataModule]]
    tokenizer_of_data: ClassVar[str]
    """The data module's attribute that holds the tokenizer."""
    monitor: ClassVar[str]
    """The default of ``checkpoint.monitor``: the score, higher is better, that selects the best
    checkpoint.
    """
    training_settings: ClassVar[frozenset[str]] = frozenset({"optim", "compute"})
    """The sections of the recipe that only training reads."""
    model: Any
    tokenizer: Any

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        task = super().__new__(cls)
        # Recorded here, because a subclass may not pass all of them to `super().__init__`.
        task.__dict__["_arguments"] = args, kwargs
        return task

    def __init__(
        self, model: nn.Module, tokenizer: Any, settings: Mapping[str, Any], seed: int
    ) -> None:
        arguments = self.__dict__.pop("_arguments")
        sections, options = task_settings.check(type(self), Task, arguments)
        super().__init__()
        self.options = options
        self.model = model
        self.tokenizer = tokenizer
        self.optim = settings["optim"]
        self.compute: Compute = settings.get("compute", Compute())
        self.seed = seed
        try:
            derived = self.model_arguments(tokenizer)
        except AttributeError as error:
            raise BadOption(
                f"{type(self).__name__}: the tokenizer of its data, data.{self.tokenizer_of_data}, "
                f"is needed, not {type(tokenizer).__name__}"
            ) from error
        self.foreign = "" if isinstance(model, self.Model) else class_path(model)
        given = {} if self.foreign else self.model.config
        sizes = {key: given[key] for key in derived.keys() & given.keys()}
        task_settings.check_sizes(sizes, derived)
        config = {key: value for key, value in given.items() if key not in derived}
        self.recipe: dict[str, Any] = {"task": self.name, "seed": seed, "model": config, **sections}
        self.recipe |= {section: asdict(value) for section, value in settings.items()}
        self._add_options()

    @property
    def untrained_loss(self) -> float | None:
        """``log(classes)``: the loss of a model that gives all classes, or all words, the same
        probability; None if the task has no such loss. A run of a sweep that ends with a larger one
        has diverged.
        """
        return None

    @classmethod
    def model_arguments(
        cls, tokenizer: Any = None, data: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return the arguments of the model's constructor that are derived from the tokenizer, such
        as ``vocab_size``. A recipe does not contain them.

        Without a tokenizer, return small placeholders, so that a recipe's model can be checked
        before data is read; ``data`` is then the recipe's section ``data``.
        """
        raise NotImplementedError

    @classmethod
    def settings(cls) -> dict[str, type]:
        """The dataclass settings by name: recipe sections besides ``model`` and ``data``."""
        return task_settings.sections(cls, Task)

    @classmethod
    def build(
        cls, recipe: Mapping[str, Any], tokenizer: Any, model: nn.Module | None = None
    ) -> Self:
        """Build the task of a recipe around a model. Without one, build the recipe's, and
        initialise its parameters from the recipe's seed.
        """
        seed = recipe.get("seed", 0)
        if model is None:
            model = cls.Model(**cls.model_arguments(tokenizer), **recipe.get("model", {}))
            initialise(model, seed)
        settings = {
            key: setting(**(recipe.get(key) or {})) for key, setting in cls.settings().items()
        }
        task = cls(model, tokenizer, seed=seed, **settings, **recipe.get("options", {}))
        task.recipe = dict(recipe)
        task._add_options()
        return task

    def tokenizer_state(self) -> dict[str, Any]:
        """The tokenizer as numbers, strings, lists and dicts, as a checkpoint stores it."""
        state: dict[str, Any] = self.tokenizer.state()
        return state

    @classmethod
    def restore_tokenizer(cls, state: Mapping[str, Any]) -> Any:
        """Make the tokenizer from :meth:`tokenizer_state`."""
        raise NotImplementedError

    def forward_batch(self, batch: Any) -> object:
        """Run the model as ``training_step`` does, for callbacks that registered forward hooks."""
        raise NotImplementedError

    def max_positions(self) -> tuple[int | None, int | None]:
        """The maximum number of source tokens and of target tokens; None: any number."""
        return None, None

    def compare_with_baselines(self, data: Any, scores: Mapping[str, float]) -> str:
        """Return a line that compares test scores with the data's baselines, or ""."""
        return ""

    @classmethod
    def measures(cls, score: str, dataset: Any, split: str) -> bool:
        """Whether a score is computed on this split of a built-in data set."""
        return score in cls.score_names

    def save_figures(self, folder: Path) -> list[Path]:
        """Save plots of the last test's results in a folder, and return their paths."""
        return []

    @classmethod
    def from_checkpoint(cls, checkpoint: Mapping[str, Any], model: nn.Module | None = None) -> Self:
        """Build the task from the contents of a checkpoint file, around ``model`` if given."""
        kept, state = checkpoint["tfzoo"], checkpoint["state_dict"]
        if model is None and kept.get("foreign"):
            raise BadRun(
                f"the model of this checkpoint, {kept['foreign']}, is not tfzoo's: load it with "
                f"{cls.__name__}.load(RUN, model=...) in Python"
            )
        try:
            layers = min(LAYERS, len(state))
            for keys, value in leaves(kept["recipe"]):
                check_number(keys, value, "the checkpoint's recipe", layers)
            tokenizer = cls.restore_tokenizer(kept["tokenizer"])
            if model is None:
                arguments = {**cls.model_arguments(tokenizer), **kept["recipe"].get("model", {})}
                # no memory is allocated before the sizes are checked
                bounds.fitting(
                    memory.check_model(cls.Model, arguments, memory.here(), BadRun), state
                )
            task = cls.build(kept["recipe"], tokenizer, model)
            task.load_state_dict(state)
            task.batches = int(kept["batches"])
            task.results = {str(key): float(one) for key, one in kept.get("results", {}).items()}
        except TfzooError:
            raise
        except Exception as error:  # of any kind: the file may come from anyone
            why = " ".join(str(error).split())[:200]
            raise BadRun(
                f"the checkpoint's contents do not match: {type(error).__name__}: {why}"
            ) from None
        return task.eval()

    def configure_model(self) -> None:
        """Apply ``compute``; shard the model if the strategy has a device mesh (FSDP)."""
        self.compute.apply(self.model)
        if self.device_mesh is not None:
            shard(self.model, self.device_mesh)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["tfzoo"] = self.checkpoint_entry()

    def checkpoint_entry(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "task": self.name,
            "recipe": self.recipe,
            "tokenizer": self.tokenizer_state(),
            "batches": self.batches,
            "skipped": self.skipped,
            "text": self._content(),
            **({"foreign": self.foreign} if self.foreign else {}),
        }

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        kept = checkpoint["tfzoo"]
        if kept["tokenizer"] != self.tokenizer_state():
            raise BadRun(
                "the checkpoint has another tokenizer than the training data; resume with the data "
                "that the checkpoint was trained on"
            )
        text = kept.get("text")
        if text and self._content() not in ("", text):
            raise BadRun(
                "the training text has changed since the checkpoint was written; resume with the "
                "text that the checkpoint was trained on"
            )
        self.batches = kept["batches"]
        self.skipped_steps.total = kept.get("skipped", 0)

    def setup(self, stage: str) -> None:
        """Check the data."""
        super().setup(stage)
        self.check(getattr(self.trainer, "datamodule", None))

    def check(self, data: Any) -> None:
        """Check that the model can read this data.

        Raises:
            BadOption: the data was prepared with another tokenizer, or has a text that is longer
                than the model's positions.
        """
        for name, texts in data.sets.items() if isinstance(data, TextData) else ():
            for lengths, limit in zip(texts.lengths(), self.max_positions(), strict=True):
                tokens = int(lengths.max(initial=0)) + 1  # and one EOS or BOS
                if limit is not None and tokens > limit:
                    raise BadOption(
                        f"{name} has a text of {tokens:,} tokens, and the model's positions end at "
                        f"{limit:,}: raise model.max_length"
                    )
        theirs = getattr(data, self.tokenizer_of_data, None)
        if theirs is None or theirs is self.tokenizer:
            return
        if theirs.state() != self.tokenizer_state():
            raise BadOption(
                "the data was prepared with another tokenizer than the model's; set "
                f"data.{self.tokenizer_of_data} = task.tokenizer before data.prepare_data()"
            )

    def _add_options(self) -> None:
        if self.options:
            self.recipe["options"] = self.options

    def _content(self) -> str:
        """A hash of the training text, or "" if the data has none."""
        data = getattr(_adapters.trainer_of(self), "datamodule", None)
        return getattr(data, "content", "")
