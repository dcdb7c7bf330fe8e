"""A task: a LightningModule that holds a model with its data, loss, scores and optimiser. How it is
trained stands here; beside it how it validates and tests (``scoring``), applies its model to texts
(``lines``), and is stored (``persistence``).
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Self

import lightning.pytorch as L
import torch
from lightning.pytorch.callbacks import WeightAveraging
from torch import Tensor, nn

from tfzoo.base import adapters
from tfzoo.base.registry import class_path
from tfzoo.base.terminal import notify
from tfzoo.contracts import FeedForward
from tfzoo.data.loaders import StreamLoader, TrainingLoader
from tfzoo.data.module import TextData
from tfzoo.errors import BadOption, NotFinite
from tfzoo.learning.gradient_normalizer import GradientNormalizer, skip_unless
from tfzoo.learning.lines import Lines
from tfzoo.learning.optim import Optim
from tfzoo.learning.persistence import Stored
from tfzoo.learning.scoring import Scored, logs_now
from tfzoo.learning.settings import Compute
from tfzoo.models.fsdp import shard
from tfzoo.models.initialise import seed_of
from tfzoo.models.transformer_layer import measured, parts_with_losses, take_auxiliary_loss


class Task(Lines, Scored, Stored):
    """A LightningModule that holds a model and defines its data, loss, scores and optimiser. It
    runs in any ``lightning.pytorch.Trainer``.

    **To write a task**, derive from this class, or from :class:`~tfzoo.learning.text_task.TextTask`
    if one text is read, and register it: ``@tfzoo.register("task", "mine")``. A subclass sets the
    class attributes without a value here and in the parent classes, and writes the methods that
    raise ``NotImplementedError``. Its constructor takes the model and the tokenizer, then the
    settings as keyword arguments: the fields of the dataclass :class:`Settings`. A subclass that
    has more sets ``Settings`` to one that derives from its parent's. A checkpoint stores all
    settings, and :meth:`load` restores them.

    ``recipe`` is the configuration of the task. A checkpoint stores it with the tokenizer, and
    :meth:`build` makes the task from both. The random seed of each training batch is derived from
    ``seed``, the number of batches trained on, and the rank.

    ``foreign`` is ``""`` if the model is an instance of ``Model``; otherwise the import path of its
    class. :meth:`load` cannot build such a model from a checkpoint: it takes one as an argument.

    **Normalisation.** ``training_step`` returns ``self.summed(loss, count)``. The optimiser then
    gets the gradients of the total loss divided by the total count, both over all micro-batches and
    processes of the step, so that the update does not depend on their number. The gradients of a
    loss without :meth:`summed` are averaged over both, as always in Lightning.

    **Auxiliary losses** of the model's parts, such as the balance loss of a mixture of experts, are
    added by :meth:`summed`: to the gradients, not to ``train/loss``, and never in validation. The
    loss of a step is their mean over micro-batches and processes, weighted by the counts.

    **Skipped steps.** If the loss or a gradient of any process is not finite, no process takes the
    step: parameters and optimiser state stay as they are. The learning-rate schedule advances with
    every step, taken or skipped. After ``optim.max_skipped`` skipped steps in a row, training
    ends with :class:`~tfzoo.errors.NotFinite`.

    **Synchronisation.** A step is normalised and skipped on the device; the host reads the number
    of skipped steps one step later. It waits for the device at logging steps and when a progress
    bar shows the loss; with ``16-mixed`` or an optimiser that is not ``fused``, at every step.

    **Scores** are over all processes, and logged as ``val/NAME`` and ``test/NAME``; of several test
    sets as ``test/SET/NAME``, except one that is called ``test``. Loaders without a data module are
    named by their number, from 0. Of several validation sets, the first is logged as ``val/NAME``,
    the others by their number.

    Raises:
        BadOption: no such setting, or one or a size of the model that a checkpoint could not
            restore.
    """

    Data: ClassVar[type[L.LightningDataModule]]
    tokenizer_of_data: ClassVar[str] = "vocabulary"
    """The data module's attribute that holds the tokenizer."""
    training_settings: ClassVar[frozenset[str]] = frozenset({"optim", "compute"})
    """The sections of the recipe that only training reads."""
    example: ClassVar[Mapping[str, Any]]
    """A small recipe of generated data, with which the task is held to its contracts."""
    smooths_labels: ClassVar[bool] = True
    """Whether its loss reads ``optim.label_smoothing``; a recipe of another task has 0 there."""
    label: ClassVar[str] = ""
    """What labels it reads if they are no classes, such as ``number``: other tasks name it then. As
    of ``about``, it is read from the source, and so is the next one.
    """
    published: ClassVar[str] = ""
    """The class of model of which a folder of ``transformers`` makes a run of this task; of a
    classifier its ``problem_type``, or ``words``: one of words.
    """

    optim: Optim
    compute: Compute

    def __init__(self, model: nn.Module, tokenizer: Any, **settings: Any) -> None:
        chosen = self.Settings.of(type(self).__name__, settings)
        super().__init__()
        vars(self).update(vars(chosen))
        self.tokens: Tensor | int = 0
        """Tokens that this process has trained on."""
        self.normalizer = GradientNormalizer()
        self._within_step = False  # after the first micro-batch of a step
        self.model, self.tokenizer = model, tokenizer
        self._restart_clock()
        self.check_optim(self.optim)
        try:
            derived = self.model_arguments(tokenizer)
            _ = tokenizer.state  # a data module has a tokenizer and labels too, but no state
        except AttributeError as error:
            raise BadOption(
                f"{type(self).__name__} needs the {self.tokenizer_of_data} of its data, a "
                f"{class_path(self.Data)}, not {type(tokenizer).__name__}"
            ) from error
        self.foreign = "" if isinstance(model, self.Model) else class_path(type(model))
        if not self.foreign:
            self.check_model(model)
        given = {} if self.foreign else self.model.config
        check_sizes(given, derived)
        config = {key: value for key, value in given.items() if key not in derived}
        self.recipe = {"task": self.entry.name, "model": config, **chosen.recipe()}

    def checked_logits(self, logits: Any, axes: str, *shape: int) -> Tensor:
        """``logits``, which a model of another class than tfzoo's has returned; a BadOption where
        they have another shape, whose axes are named, or are no tensor.
        """
        if not isinstance(logits, Tensor) or logits.shape != shape:
            got = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
            raise BadOption(f"{self.foreign} must return logits ({axes}) = {shape}, not {got}")
        return logits

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Move and cast the model; of the task's own buffers, such as the mean of the labels, the
        values stay as they are.
        """
        own = dict(self.named_buffers(recurse=False))
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]  # of torch
        for name, value in self.named_buffers(recurse=False):
            if value.dtype != own[name].dtype:
                setattr(self, name, own[name].to(value.device))
        return self

    # Checks

    @classmethod
    def check_model(cls, model: Any) -> None:
        """Check a model of the class ``Model``, as soon as a recipe is read; raise a BadOption."""

    @classmethod
    def check_optim(cls, optim: Optim, default: float = Optim.label_smoothing) -> None:
        """Check the section ``optim``, as soon as a recipe is read; raise a BadOption. ``default``
        is the smoothing that nobody chose: that of ``Optim``, in a recipe 0.
        """
        if not cls.smooths_labels and optim.label_smoothing not in (0, default):
            raise BadOption(
                f": task {cls.entry.name!r} does not choose among classes, "
                "so there is nothing to smooth; leave it out, or set it to 0",
                key="optim.label_smoothing",
            )

    def check(self, data: Any) -> None:
        """Raise a BadOption if the data is that of another task, was prepared with another
        tokenizer, or has a text that is longer than the model's positions.
        """
        if isinstance(data, TextData) and not isinstance(data, self.Data):
            raise BadOption(
                f"{type(self).__name__} takes {class_path(self.Data)}, not {type(data).__name__}"
            )
        for name, texts in data.sets.items() if isinstance(data, TextData) else ():
            for lengths, limit in zip(texts.lengths(), self.max_positions(), strict=True):
                tokens = int(lengths.max(initial=0)) + 1  # and one EOS or BOS
                if limit is not None and tokens > limit:
                    fewer = f"set data.max_length to {limit - 2}, or " if name == "train" else ""
                    raise BadOption(
                        f"{name} has a text of {tokens:,} tokens, and the model's positions end at "
                        f"{limit:,}: {fewer}raise model.max_length"
                    )
        theirs = getattr(data, self.tokenizer_of_data, None)
        if theirs is None or theirs is self.tokenizer:
            return
        if theirs.state() != self.tokenizer.state():
            raise BadOption(
                "the data was prepared with another tokenizer than the model's: to resume, take "
                "the text and the seed that the checkpoint was trained on; for other text, set "
                f"data.{self.tokenizer_of_data} = task.tokenizer before data.prepare_data()"
            )

    # Before training

    def setup(self, stage: str) -> None:
        """Check the data."""
        # Buffers are equal in all processes. DDP would broadcast them before each forward pass, and
        # a process with more batches to score than the others would wait forever.
        adapters.ignore_in_ddp(self, [name for name, _ in self.named_buffers()])
        self.check(getattr(self.trainer, "datamodule", None))

    def configure_model(self) -> None:
        """Apply ``compute``, and before a training the adapter; shard the model if the strategy has
        a device mesh (FSDP).
        """
        if getattr(adapters.trainer_of(self), "training", False):
            self.choose_trained()
        self.compute.apply(self.model)
        if self.device_mesh is not None:
            shard(self.model, self.device_mesh)

    def choose_trained(self) -> None:
        """Give the model its adapter, beside which only what starts anew is trained, unless the
        recipe says otherwise, and freeze what ``optim.freeze`` names.
        """
        self.adapter.apply(self.model, self.seed, [one.removeprefix("model.") for one in self.anew])
        self.optim.freeze_parameters(self.model)

    def configure_callbacks(self) -> list[L.Callback]:
        """What averages the weights, if ``optim.average`` is set."""
        return [] if self.optim.average is None else [WarmupEMA(self.optim.average)]

    def configure_optimizers(self) -> Any:
        most = int(min(self.trainer.estimated_stepping_batches, 2**31))
        made = self.optim.optimizer_and_schedule(self, max_steps=most)
        factor = made["lr_scheduler"]["scheduler"].lr_lambdas[0]
        last = factor(most - 1)
        if last < 1 and (most == 1 or factor(most - 2) < last):
            notify(
                f"warmup is longer than the training's {most:,} steps: the learning rate rises "
                f"until the end and reaches {last:.2g} of optim.lr; lower optim.schedule.warmup"
            )
        return made

    # Training

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        """The loss of a batch: log it with :meth:`log_training`, and return :meth:`summed`."""
        raise NotImplementedError

    def forward_batch(self, batch: Any) -> object:
        """Run the model as ``training_step`` does, for callbacks that registered forward hooks.
        Here: by its ``loss(batch)``.
        """
        return self.loss(batch)  # type: ignore[operator]  # a module, or a method of a subclass

    def on_train_start(self) -> None:
        self.normalizer.reset()
        self._within_step = False
        vars(self).pop("parts_with_losses", None)
        self._restart_clock()
        self._go_on()

    def _go_on(self) -> None:
        """Restore, after a checkpoint, what Lightning 2.6 does not. Its loops load the state of a
        data loader in the middle of an epoch alone, and into none that was made before, as the
        schedule does to know the number of steps; after a whole epoch they take one batch more.
        """
        loader, loop = self.trainer.train_dataloader, self.trainer.fit_loop
        epochs: Any = loop.epoch_progress.current
        if self.loaders and isinstance(loader, TrainingLoader | StreamLoader):
            loader.load_state_dict(self.loaders[0])
        self.loaders = []
        batches, is_over = (
            loop.epoch_loop.batch_progress.current,
            epochs.processed == epochs.started,
        )
        if is_over and batches.completed == self.trainer.num_training_batches:
            batches.reset()

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        self.check_batch(batch)
        if not self._within_step:  # Lightning drops the last step's gradients after the forward
            self.trainer.optimizers[0].zero_grad()
        seed = seed_of(self.seed, "step", self.batches, self.global_rank)
        # torch.manual_seed does the same, but takes milliseconds: it seeds all kinds of devices.
        torch.default_generator.manual_seed(seed)
        if self.device.type != "cpu":
            torch.get_device_module(self.device).manual_seed(seed)
        self.batches += 1  # before any callback saves a checkpoint at the end of the batch
        self._within_step = True

    def summed(self, loss: Tensor, count: Tensor | float) -> Tensor:
        """Record the sum of a batch's losses and ``count``, the number to divide it by, such as the
        number of tokens. Returns the loss, with auxiliary losses, for ``training_step`` to return.
        """
        self.normalizer.add(loss, count)
        auxiliary = take_auxiliary_loss(self.parts_with_losses.values())
        return loss if auxiliary is None else loss + count * auxiliary

    @cached_property
    def parts_with_losses(self) -> dict[str, FeedForward]:
        """The parts of the model that have an auxiliary loss, by name."""
        return parts_with_losses(self.model)

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        self._check_skipped()
        trainer, normalizer = self.trainer, self.normalizer
        finite = normalizer.normalize_(
            [parameter for group in optimizer.param_groups for parameter in group["params"]],
            trainer.world_size,
            trainer.accumulate_grad_batches,
        )
        skip_unless(finite, optimizer)
        # GradScaler lowers its scale after an overflow; such steps do not count here.
        scaler = getattr(trainer.precision_plugin, "scaler", None)
        self.skipped_steps.add(~finite, tolerated=scaler is not None and scaler.get_scale() > 1)
        self._within_step = False
        if normalizer.total is not None:
            self.log("train/loss", normalizer.loss, prog_bar=self._has_bar)
        normalizer.reset()
        if logs_now(self.trainer):
            skipped = float(self.skipped)
            self.log_dict({"train/grad_norm": normalizer.norm, "train/skipped": skipped})

    def log_training(self, values: Mapping[str, Tensor], tokens: Tensor | int) -> None:
        """Count a batch's tokens, and log ``train/loss`` if it is among the values; at logging
        steps also the other values, auxiliary losses and shares of experts, the learning rate, and
        the tokens per second since the last one, of this process times the number of processes.
        """
        self.tokens = self.tokens + tokens
        if "train/loss" in values:
            self.log("train/loss", values["train/loss"], prog_bar=self._has_bar)
        if logs_now(self.trainer):
            before, since = self._logged
            self._restart_clock()
            counted, now = self._logged
            speed = self.trainer.world_size * (counted - before) / max(now - since, 1e-9)
            extra = {f"train/{key}": one for key, one in measured(self.parts_with_losses).items()}
            extra["train/lr"] = self.trainer.optimizers[0].param_groups[0]["lr"]
            self.log_dict({key: one for key, one in values.items() if key != "train/loss"} | extra)
            self.log("train/tokens_per_second", speed, prog_bar=self._has_bar)

    @property
    def _has_bar(self) -> bool:
        """Whether a bar shows numbers: Lightning reads each that is for one, after every batch."""
        bar = self.trainer.progress_bar_callback
        return bool(getattr(bar, "is_enabled", bar))

    def _restart_clock(self) -> None:
        self._logged = float(self.tokens), time.perf_counter()

    def _check_skipped(self) -> None:
        """Raise NotFinite if ``optim.max_skipped`` steps in a row were skipped."""
        if (in_a_row := self.skipped_steps.last_in_a_row()) >= self.optim.max_skipped:
            raise NotFinite(in_a_row)

    def on_train_end(self) -> None:
        self._check_skipped()  # the last step

    # Evaluation

    def on_validation_model_eval(self) -> None:
        if self.trainer.state.fn == "fit":
            self._check_skipped()  # before decoding with weights that may not be finite
        super().on_validation_model_eval()

    def on_validation_end(self) -> None:
        self._restart_clock()  # training throughput excludes validation

    def predict_step(
        self, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> list[dict[str, Any]]:
        """:meth:`rows` with ``index``, the row of each item in its data set."""
        self.check_batch(batch)
        rows = zip(batch.index, self.rows(batch), strict=True)
        return [{"index": index, **row} for index, row in rows]


def check_sizes(given: Mapping[str, Any], derived: Mapping[str, Any]) -> None:
    """Raise a BadOption unless a model has the sizes that are derived from the tokenizer, such as
    ``vocab_size``: they are in no recipe. ``source_vocab_size=None`` means ``vocab_size``.
    """
    for key in derived.keys() & given.keys():
        has, needs = given[key], derived[key]
        if key == "source_vocab_size":
            has, needs = has or given["vocab_size"], needs or derived["vocab_size"]
        if has != needs:
            raise BadOption(
                f"the model has {key}={has}, but the tokenizer or the labels need {key}={needs}"
            )


class WarmupEMA(WeightAveraging):
    """An exponential moving average over a share of the steps so far, until it spans as many as
    ``decay`` says: after step ``n``, counted from 0, ``average = d average + (1 - d) weights``
    with ``d = min(decay, (1 + n) / (20 + n))``, as TensorFlow's ``ExponentialMovingAverage`` with
    ``num_updates``, which has 10 in place of 20. With ``decay`` from the start, the average would
    long hold the weights that training began with.

    Buffers of the model are averaged, too, such as running statistics; those of the task itself are
    not: class weights, or the threshold that a validation has chosen with the average.
    """

    def __init__(self, decay: float) -> None:
        super().__init__(multi_avg_fn=self.move)
        self.decay = decay
        self.step = 0

    def should_update(self, step_idx: int | None = None, epoch_idx: int | None = None) -> bool:
        """After each optimiser step."""
        if step_idx is not None:
            self.step = step_idx
        return step_idx is not None

    def move(self, averages: Sequence[Tensor], weights: Sequence[Tensor], _: Any) -> None:
        """Move averages towards the weights of this step; whole numbers are taken over."""
        decay = min(self.decay, (1 + self.step) / (20 + self.step))
        for average, weight in zip(averages, weights, strict=True):
            if average.is_floating_point():
                average.lerp_(weight, 1 - decay)
            else:
                average.copy_(weight)

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Give the average the task's own buffers: the same tensors, not copies."""
        for name, value in pl_module.named_buffers(recurse=False):
            setattr(adapters.average_of(self), name, value)
