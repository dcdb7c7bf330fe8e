"""What a checkpoint or a folder holds of a task, and the task that is built from it."""

import copy
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, ClassVar, Self

import lightning.pytorch as L
from torch import Tensor, nn

from tfzoo.base import adapters, memory
from tfzoo.base.registry import Entry
from tfzoo.base.values import (
    LAYERS,
    VARIADIC,
    check_arguments,
    check_names,
    check_number,
    leaves,
    parameters,
)
from tfzoo.data.tokenizer import Vocabulary
from tfzoo.errors import BadRun, TfzooError
from tfzoo.learning.adapter import Adapter, holds_adapter, merge, merged
from tfzoo.learning.gradient_normalizer import SkippedSteps
from tfzoo.learning.model_card import model_card
from tfzoo.learning.settings import Settings
from tfzoo.learning.trained_run import TrainedRun
from tfzoo.models.initialise import can_fill, fill, initialise
from tfzoo.runs import checkpoints, pretrained

PLACEHOLDER_SIZE = 16
"""The vocabulary size with which a model is built before the tokenizer is known."""


class Stored(L.LightningModule):
    """The part of a task that is written and read: recipe, tokenizer, weights, and where its
    training stands.
    """

    entry: ClassVar[Entry]
    """What the registry knows of it: its name."""
    Model: ClassVar[type[nn.Module]]
    Settings: ClassVar[type[Settings]] = Settings
    """The dataclass of the settings."""

    adapter: Adapter = Adapter()
    """What training adds to the model, see :class:`~tfzoo.learning.adapter.Adapter`."""
    seed: int
    foreign: str
    recipe: dict[str, Any]

    def __new__(cls, *args: Any, **options: Any) -> Self:
        """Check the names of arguments; a copy is made without any."""
        if args or options:
            own = [one.name for one in parameters(cls) if one.kind not in VARIADIC]
            placed = own[: len(args)]
            check_arguments(cls, {*placed, *options}, [one.name for one in fields(cls.Settings)])
        return super().__new__(cls)

    def __init__(self) -> None:
        super().__init__()
        self.model: Any = None
        self.tokenizer: Any = None
        self.batches = 0
        """Batches that this process has trained on."""
        self.skipped_steps = SkippedSteps()
        self.loaders: list[Any] = []
        """The states of data loaders in the checkpoint that training goes on from."""
        self.began: dict[str, str] = {}
        """Which of the weights that training began with were kept, which parts swapped."""
        self.anew: list[str] = []
        """The names of those that training did not begin with, but started anew."""
        self.results: dict[str, float] = {}
        """The scores of the run or repository that the task was loaded from."""
        self.beside: dict[str, Tensor] = {}
        """Tensors beside the model's own that another one could begin with, as BERT's pooler."""

    @classmethod
    def model_arguments(
        cls, tokenizer: Any = None, data: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """The arguments of the model's constructor that are derived from the tokenizer, such as
        ``vocab_size``; a recipe does not contain them. Without one, small placeholders, to check a
        model before data is read; ``data`` is then the recipe's section ``data``.
        """
        return {"vocab_size": PLACEHOLDER_SIZE if tokenizer is None else len(tokenizer.tokenizer)}

    @classmethod
    def restore_tokenizer(cls, state: Mapping[str, Any]) -> Any:
        """Make the tokenizer from its ``state()``, as a checkpoint stores it."""
        return Vocabulary.restore(state)

    @classmethod
    def complete(cls, found: dict[str, Any], folder: Path) -> None:
        """Complete what :func:`tfzoo.learning.published.read` has made of a folder: a checkpoint of
        this task with the model's weights, its options, and its tokenizer with labels.
        """

    @classmethod
    def settings(cls) -> dict[str, type]:
        """The dataclass settings by name: recipe sections besides ``model`` and ``data``."""
        return {**cls.Settings.sections(), **cls.Settings.options(), "adapter": Adapter}

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
            key: setting(**(recipe.get(key) or {}))
            for key, setting in cls.Settings.sections().items()
        }
        make: Any = cls
        task: Self = make(model, tokenizer, seed=seed, **settings, **(recipe.get("options") or {}))
        options = {key: task.recipe[key] for key in ("options",) if key in task.recipe}
        task.adapter, task.recipe = Adapter(**(recipe.get("adapter") or {})), {**recipe, **options}
        return task

    @classmethod
    def load(cls, run: str | Path, model: nn.Module | None = None) -> Self:
        """Load a trained run of this task, in evaluation mode, as :func:`tfzoo.load` does whatever
        the task is.

        Raises:
            BadRun: as :func:`tfzoo.load`; or it is of another task, or its model is not tfzoo's,
                and none is given.
        """
        trained = TrainedRun(run)
        trained.check_task(cls.entry.name)
        task: Self = trained.load(cls, model=model)
        return task

    @classmethod
    def load_from_checkpoint(  # type: ignore[override]  # it reads data alone, and all of it
        cls,
        checkpoint_path: Any,
        map_location: Any = None,
        *,
        model: nn.Module | None = None,
        weights_only: bool | None = None,
        **others: Any,
    ) -> Self:
        """:meth:`load`, by Lightning's name, to a device. Whatever ``weights_only`` is, the file
        runs no code.
        """
        check_names(cls.load_from_checkpoint, others)
        return cls.load(checkpoint_path, model).to(map_location)

    @classmethod
    def from_checkpoint(
        cls,
        checkpoint: Mapping[str, Any],
        model: nn.Module | None = None,
        keep_adapter: bool = False,
    ) -> Self:
        """Build the task from the contents of a checkpoint, in evaluation mode, around ``model``;
        without one, its tensors become the task's. An adapter is merged, unless ``keep_adapter``.

        Raises:
            BadRun: the contents do not match, or the model is not tfzoo's and none is given.
        """
        kept = checkpoint["tfzoo"]
        if kept.get("headless"):
            raise BadRun(kept["headless"])
        if model is None and kept.get("foreign"):
            raise BadRun(
                f"the model of this checkpoint, {kept['foreign']}, is not tfzoo's: load it with "
                f"{cls.__name__}.load(RUN, model=...) in Python"
            )
        try:
            return cls._restored(kept, checkpoint, model, keep_adapter).eval()
        except TfzooError:
            raise
        except Exception as error:  # of any kind: the file may come from anyone
            why = " ".join(str(error).split())[:200]
            raise BadRun(
                f"the checkpoint's contents do not match: {type(error).__name__}: {why}"
            ) from None

    @classmethod
    def _restored(
        cls,
        kept: Mapping[str, Any],
        checkpoint: Mapping[str, Any],
        given: nn.Module | None,
        keep_adapter: bool,
    ) -> Self:
        state, recipe, model = checkpoint["state_dict"], kept["recipe"], given
        layers = min(LAYERS, len(state))
        for keys, value in leaves(recipe):
            check_number(keys, value, "the checkpoint's recipe", layers)
        tokenizer = cls.restore_tokenizer(kept["tokenizer"])
        adapter = Adapter(**(recipe.get("adapter") or {}))
        anew = [str(name).removeprefix("model.") for name in kept.get("anew", [])]
        if not holds_adapter(state):
            adapter = Adapter()
        elif not keep_adapter:  # it is added to weights that are the checkpoint's own
            state = {name: weight.clone() for name, weight in state.items()}
        if model is None:
            arguments = {**cls.model_arguments(tokenizer), **recipe.get("model", {})}
            # no memory is allocated before the sizes are checked
            empty = memory.check_model(cls.Model, arguments, BadRun)
            adapter.apply(empty, 0, anew)
            checkpoints.check_fit(empty, state)
            if can_fill(empty):
                fill(nn.ModuleDict({"model": empty}), state)
                model = empty
        task = cls.build(recipe, tokenizer, model)
        if task.model is given or model is None:
            adapter.apply(task.model, task.seed, anew)
        own = dict(task.named_buffers(recurse=False))  # a folder of transformers has none
        task.load_state_dict({**own, **state}, assign=given is None)
        if not keep_adapter:
            merge(task.model)
        task.beside = dict(checkpoint.get("beside", {}))
        task.batches = int(kept["batches"])
        task.began = {str(key): str(one) for key, one in kept.get("began", {}).items()}
        task.anew = [str(name) for name in kept.get("anew", [])]
        task.results = {str(key): float(one) for key, one in kept.get("results", {}).items()}
        return task

    def checkpoint_entry(self) -> dict[str, Any]:
        """What a checkpoint has beside tensors and the states of Lightning."""
        adapter = {"adapter": asdict(self.adapter)} if self.adapter.name else {}
        return {
            "format": checkpoints.FORMAT,
            "task": self.entry.name,
            "recipe": {**self.recipe, **adapter},
            "tokenizer": self.tokenizer.state(),
            "batches": self.batches,
            "skipped": self.skipped,
            "text": self._content(),
            **({"foreign": self.foreign} if self.foreign else {}),
            **({"began": self.began, "anew": self.anew} if self.began else {}),
        }

    @property
    def skipped(self) -> int:
        """Steps skipped so far. Waits for the device."""
        return int(self.skipped_steps.total)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["tfzoo"] = self.checkpoint_entry()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        kept = checkpoint["tfzoo"]
        if kept["tokenizer"] != self.tokenizer.state():
            raise BadRun(
                "the checkpoint has another tokenizer than the training data; resume with the data "
                "that the checkpoint was trained on"
            )
        self.began, self.anew = dict(kept.get("began", {})), list(kept.get("anew", []))
        text = kept.get("text")
        if text and self._content() not in ("", text):
            raise BadRun(
                "the training text has changed since the checkpoint was written; resume with the "
                "text that the checkpoint was trained on"
            )
        self.batches = kept["batches"]
        loop = checkpoint.get("loops", {}).get("fit_loop", {}).get("state_dict", {})
        self.loaders = loop.get("combined_loader", [])
        self.skipped_steps.total = kept.get("skipped", 0)

    def _content(self) -> str:
        """A hash of the training text, or "" if the data has none."""
        data = getattr(adapters.trainer_of(self), "datamodule", None)
        return getattr(data, "content", "")

    def save_pretrained(self, folder: str | Path) -> None:
        """Write a folder with the weights in safetensors, recipe and tokenizer in JSON and a model
        card, which :func:`tfzoo.load` and all commands read::

            task.save_pretrained("numbers")
            tfzoo.load("numbers").translate(["twenty plus two"])

        It is written under a temporary name, read back and compared, then renamed. Of absolute
        paths in the recipe the last part is kept.

        Args:
            folder: a new or an empty folder.

        Raises:
            TfzooError: the folder exists and is not empty, or cannot be written.
        """
        kept = {**self.checkpoint_entry(), "results": self.results}
        whole = merged(self)
        size = sum(one.numel() for one in whole.parameters())
        card = model_card(kept, size)
        pretrained.write(Path(folder), whole.state_dict(), kept, card, self.beside)

    def model_to_export(self, *, keep_adapter: bool = False) -> nn.Module:
        """A copy of the model on the CPU, in evaluation mode, whose outputs are the task's; its
        adapter is merged, unless ``keep_adapter``.
        """
        model: nn.Module = copy.deepcopy(self.model)
        if not keep_adapter:
            merge(model)
        return model.cpu().eval()
