"""What every task does alike: its optimiser, its random state, its speed, and what its checkpoints hold."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar, get_args, get_type_hints

import lightning.pytorch as L
import torch
from torch import Tensor, nn

from tfzoo.errors import BadOption, BadRun
from tfzoo.models.shard import shard, whole
from tfzoo.models.start import seed_of, start
from tfzoo.runs import checkpoints
from tfzoo.tasks.compute import Compute
from tfzoo.tasks.optim import Optim

FORMAT = 1
"""The version of what a checkpoint's key ``tfzoo`` holds."""

SMALL = 16
"""A vocabulary to try a model with."""

T = TypeVar("T")


class Task(L.LightningModule):
    """A model, its loss and its optimiser, for any ``lightning.pytorch.Trainer``.

    The random state of a step is a function of the seed, the batches trained on and the rank; what was drawn before does not matter.
    ``recipe`` is the configuration that a checkpoint carries, together with the tokenizer: all that is needed to build the task again.

    A task says what it is in its class attributes, trains in ``training_step`` and writes :meth:`sizes`, :meth:`restore_tokenizer`,
    :meth:`new_scores`, :meth:`score` and :meth:`rows`. Its constructor takes the model, the tokenizer and, after the star, its settings:
    dataclasses, a section of the recipe each.
    """

    name: ClassVar[str]
    Model: ClassVar[type[nn.Module]]
    Data: ClassVar[type[L.LightningDataModule]]
    tokenizer_of_data: ClassVar[str]
    """The attribute of the data that holds the tokenizer."""
    command: ClassVar[str]
    """The command that uses a trained run on text."""
    monitor: ClassVar[str]
    """The score of which more is better, by which the best checkpoint is chosen unless a recipe says another."""
    of_training: ClassVar[frozenset[str]] = frozenset({"optim", "compute"})
    """The settings that a trained run has no more use for."""
    model: Any
    tokenizer: Any

    def __init__(self, model: nn.Module, tokenizer: Any, settings: Mapping[str, Any], seed: int) -> None:
        super().__init__()
        self.model = model
        self.tokenizer = tokenizer
        self.optim: Optim = settings["optim"]
        self.compute: Compute = settings["compute"]
        self.seed = seed
        self.batches = 0
        config = {key: value for key, value in self.model.config.items() if key not in self.sizes(tokenizer)}
        self.recipe: dict[str, Any] = {"task": self.name, "seed": seed, "model": config}
        self.recipe |= {section: asdict(value) for section, value in settings.items()}
        self.scores = nn.ModuleList()
        self.tokens: Tensor | int = 0  # trained on by this process
        self._counted, self._since = 0.0, time.perf_counter()

    @classmethod
    def sizes(cls, tokenizer: Any = None, data: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """What the tokenizer says to the model's constructor, and a recipe therefore does not.

        Without a tokenizer, small numbers in their place: to see before any data is read whether a recipe's model can be built.
        """
        raise NotImplementedError

    @classmethod
    def settings(cls) -> dict[str, type]:
        """The sections of a recipe besides model and data: dataclasses after the star of the constructor."""
        hints = get_type_hints(cls.__init__)
        named = [key for key, one in inspect.signature(cls.__init__).parameters.items() if one.kind is one.KEYWORD_ONLY]
        pairs = [(key, part) for key in named for part in (get_args(hints[key]) or (hints[key],))]
        return {key: part for key, part in pairs if isinstance(part, type) and is_dataclass(part)}

    @classmethod
    def build(cls, recipe: Mapping[str, Any], tokenizer: Any) -> Self:
        """The task that a recipe describes, its parameters started from the recipe's seed."""
        model, seed = cls.Model(**cls.sizes(tokenizer), **recipe.get("model", {})), recipe.get("seed", 0)
        start(model, seed)
        settings = {key: setting(**(recipe.get(key) or {})) for key, setting in cls.settings().items()}
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

    def new_scores(self) -> nn.Module:
        """All that is measured on one set; its ``compute()`` gives numbers by name, over all processes."""
        raise NotImplementedError

    def score(self, batch: Any, scores: Any) -> None:
        """Add a batch to the scores of its set."""
        raise NotImplementedError

    def rows(self, batch: Any) -> list[dict[str, Any]]:
        """What the model says of each item of a batch, beside what is known of it: the columns of ``tfzoo predict``."""
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
            BadRun: no such run; or the checkpoint is damaged, of another task, or not a checkpoint of tfzoo.
        """
        path = checkpoints.resolve(run)
        return cls.from_checkpoint(checkpoints.read(path, task=cls.name))

    @classmethod
    def from_checkpoint(cls, checkpoint: Mapping[str, Any]) -> Self:
        """The task that a checkpoint, already read and checked, holds."""
        kept = checkpoint["tfzoo"]
        task = cls.build(kept["recipe"], cls.restore_tokenizer(kept["tokenizer"]))
        try:
            task.load_state_dict(checkpoint["state_dict"])
        except RuntimeError as error:
            first = str(error).splitlines()[1].strip()
            raise BadRun(
                f"the checkpoint's parameters do not fit its own recipe and tokenizer ({first}); it was put together wrongly"
            ) from None
        task.batches = kept["batches"]
        return task.eval()

    def configure_model(self) -> None:
        """Compute the model as ``compute`` says, spread over the processes where the strategy does that."""
        self.compute.apply(self.model)
        if self.device_mesh is not None:
            shard(self.model, self.device_mesh)

    def configure_optimizers(self) -> Any:
        steps = self.trainer.estimated_stepping_batches
        return self.optim.configure(self.parameters(), max_steps=int(steps) if steps != float("inf") else 2**31)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["tfzoo"] = {
            "format": FORMAT,
            "task": self.name,
            "recipe": self.recipe,
            "tokenizer": self.tokenizer_state(),
            "batches": self.batches,
        }

    def setup(self, stage: str) -> None:
        """See that the data is of the tokenizer that the model knows: another one's ids mean other words."""
        theirs = getattr(getattr(self.trainer, "datamodule", None), self.tokenizer_of_data, None)
        if theirs is not None and theirs is not self.tokenizer and theirs.state() != self.tokenizer_state():
            raise BadOption(
                f"the data was prepared with another tokenizer than the model's; set data.{self.tokenizer_of_data} = task.tokenizer before "
                "data.prepare_data()"
            )

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        if checkpoint["tfzoo"]["tokenizer"] != self.tokenizer_state():
            raise BadRun("the checkpoint has another tokenizer than this training's data; go on with the text that it was trained on")
        self.batches = checkpoint["tfzoo"]["batches"]

    def on_train_start(self) -> None:
        self._restart_clock()

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        torch.manual_seed(seed_of(self.seed, "step", self.batches, self.global_rank))
        self.batches += 1  # before callbacks hear of the batch's end and save

    def on_validation_start(self) -> None:
        self._start_scoring(1)

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        self._score(batch, dataloader_idx)

    def on_validation_epoch_end(self) -> None:
        self.log_dict({f"val/{name}": value for name, value in self._results(0).items()}, prog_bar=True)

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
            self.log_dict({f"{prefix}/{name}": value for name, value in self._results(index).items()})

    def test_names(self) -> list[str]:
        """The test sets of the data that is tested on; loaders of one's own have no names."""
        return list(getattr(getattr(self.trainer, "datamodule", None), "test_names", []))

    def predictions(self, data: Any, name: str) -> list[dict[str, Any]]:
        """:meth:`rows` of a whole test set, in its order."""
        return self.in_order(data.test_dataloader()[data.test_names.index(name)], self.rows)

    @torch.no_grad()
    def in_order(self, batches: Iterable[Any], use: Callable[[Any], list[T]], progress: Callable[[int], object] | None = None) -> list[T]:
        """What the model makes of each item of some batches, by the items' ``index``; ``progress`` is told how many each batch finished.

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

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        if self._logs_now():
            gradients = [p.grad for p in self.parameters() if p.grad is not None]
            self.log("train/grad_norm", whole(nn.utils.get_total_norm(gradients)))

    def log_training(self, values: Mapping[str, Tensor], tokens: Tensor | int) -> None:
        """Log a step's values, the learning rate and, at the Trainer's logging steps, tokens per second since the last one.

        A count that lies on the device is fetched at these steps alone.
        """
        self.tokens = self.tokens + tokens
        self.log("train/loss", values["train/loss"], prog_bar=True)
        if self._logs_now():
            now, counted = time.perf_counter(), float(self.tokens)
            speed = (counted - self._counted) / max(now - self._since, 1e-9)
            self._counted, self._since = counted, now
            self.log_dict({key: value for key, value in values.items() if key != "train/loss"})
            self.log("train/lr", self.trainer.optimizers[0].param_groups[0]["lr"])
            self.log("train/tokens_per_second", float(speed), prog_bar=True)

    def _restart_clock(self) -> None:
        self._counted, self._since = float(self.tokens), time.perf_counter()

    def _start_scoring(self, sets: int) -> None:
        self.scores = nn.ModuleList(self.new_scores() for _ in range(sets)).to(self.device)

    def _score(self, batch: Any, dataloader: int) -> None:
        while len(self.scores) <= dataloader:  # loaders of one's own have no names
            self.scores.append(self.new_scores().to(self.device))
        self.score(batch, self.scores[dataloader])

    def _results(self, index: int) -> dict[str, Tensor]:
        results: dict[str, Tensor] = self.scores[index].compute()  # type: ignore[operator]  # scores have it
        return results

    def _logs_now(self) -> bool:
        every = getattr(self.trainer, "log_every_n_steps", 0)
        return bool(every) and (self.trainer.global_step + 1) % every == 0
