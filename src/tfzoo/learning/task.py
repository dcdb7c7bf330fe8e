"""A task: a LightningModule that holds a model with its data, loss, scores and optimiser. What all
tasks share stands here: how one is built from a recipe, a training step, evaluation, checkpoints.
"""

from __future__ import annotations

import copy
import math
import time
import warnings
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypedDict, TypeVar, Unpack

import lightning.pytorch as L
import torch
from lightning.pytorch.callbacks import WeightAveraging
from torch import Tensor, nn

from tfzoo.base import adapters
from tfzoo.base.registry import Entry, class_path
from tfzoo.base.scores import format_score
from tfzoo.base.terminal import notify
from tfzoo.base.values import leaves
from tfzoo.contracts import FeedForward
from tfzoo.data.batches import OnTruncated
from tfzoo.data.module import TextData
from tfzoo.data.stream import StreamLoader
from tfzoo.data.tokenizer import Vocabulary
from tfzoo.data.training_loader import TrainingLoader
from tfzoo.errors import BadData, BadOption, BadRun, NotFinite
from tfzoo.learning.adapter import Adapter, merge
from tfzoo.learning.attention import Record, page_of, token_strings
from tfzoo.learning.gradient_normalizer import GradientNormalizer, SkippedSteps, skip_unless
from tfzoo.learning.optim import Optim
from tfzoo.learning.persistence import restored, write_pretrained
from tfzoo.learning.scoring import InferenceThroughput, Scores
from tfzoo.learning.settings import Compute, Settings
from tfzoo.learning.weight_averaging import WarmupEMA
from tfzoo.models.auxiliary_losses import measured, parts_with_losses, take_auxiliary_loss
from tfzoo.models.fsdp import shard
from tfzoo.models.initialise import initialise, seed_of
from tfzoo.plots.pages.attention import AttentionMaps
from tfzoo.plots.style import log_figure, save
from tfzoo.runs import checkpoints, hub
from tfzoo.runs.run import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLACEHOLDER_SIZE = 16
"""The vocabulary size with which a model is built before the tokenizer is known."""

CLIP_BY_NORM = (None, "norm")
"""Values of ``Trainer.gradient_clip_algorithm`` that clip the norm of all gradients."""

OnProgress = Callable[[int], object]
"""Called with the number of lines finished since the last call."""

Figures = dict[str, Callable[[], "Figure"]]
"""What draws pictures, by name."""

T = TypeVar("T")


class Reading(TypedDict, total=False):
    """How lines are read, as :meth:`Task.for_lines` takes it."""

    max_tokens: int
    """The most tokens of a batch."""
    progress: OnProgress | None
    on_truncated: OnTruncated | None
    """Called with the indices of truncated lines, and the tokens that are read of each."""


class Part(str):
    """A part of a line that a command writes before the rest of it is known."""

    __slots__ = ()


class Task(L.LightningModule):
    """A LightningModule that holds a model and defines its data, loss, scores and optimiser. It
    runs in any ``lightning.pytorch.Trainer``.

    **To write a task**, derive from this class, or from :class:`~tfzoo.learning.text_task.TextTask`
    if one text is read, and register it: ``@tfzoo.register("task", "mine")``. A subclass sets the
    class attributes below, and writes the methods that raise ``NotImplementedError`` here. Its
    constructor takes the model and the tokenizer, then the settings as keyword arguments: the
    fields of the dataclass :class:`Settings`. A subclass that has more sets ``Settings`` to one
    that derives from its parent's. A checkpoint stores all settings, and :meth:`load` restores
    them.

    ``recipe`` is the configuration of the task. A checkpoint stores it with the tokenizer, and
    :meth:`build` makes the task from both. The random seed of each training batch is derived from
    ``seed``, the number of batches trained on, and the rank.

    ``foreign`` is ``""`` if the model is an instance of ``Model``; otherwise the import path of its
    class. :meth:`load` cannot build such a model from a checkpoint: it takes one as an argument.

    **Normalisation.** ``training_step`` returns ``self.summed(loss, count)``. The optimiser then
    gets the gradients of the total loss divided by the total count, where both totals are over all
    micro-batches and processes of the step. The update thus does not depend on the number of
    processes. If ``training_step`` returns a mean loss without :meth:`summed`, its gradients are
    averaged over micro-batches and processes, as always in Lightning.

    **Auxiliary losses** of the model's parts, such as the balance loss of a mixture of experts, are
    added by :meth:`summed`: to the gradients, not to ``train/loss``, and never in validation. The
    loss of a step is their mean over micro-batches and processes, weighted by the counts.

    **Skipped steps.** If the loss or a gradient of any process is not finite, no process takes the
    step: parameters and optimiser state stay as they are. The learning-rate schedule advances with
    every step, taken or skipped. After ``optim.max_skipped`` skipped steps in a row, training
    ends with :class:`~tfzoo.errors.NotFinite`.

    **Synchronisation.** A step is normalised, clipped and skipped on the device; the host reads
    the number of skipped steps one step later. The host waits for the device at logging steps
    (``trainer.log_every_n_steps``) and when a progress bar shows the loss; with ``precision:
    16-mixed`` (GradScaler) or an optimiser that is not ``fused``, it waits at every step.

    **Scores** are reduced over all processes and logged as ``val/NAME`` and ``test/NAME``. If there
    are several test sets, each is logged as ``test/SET/NAME``, except one that is called ``test``,
    which is logged as ``test/NAME``. Loaders without a data module are named by their number, from
    0. Of several validation sets, the first is logged as ``val/NAME``, the others by their number.

    Args:
        settings: those of :attr:`Settings`, which become attributes.

    Raises:
        BadOption: a setting or a size of the model that a checkpoint could not restore.
    """

    Settings: ClassVar[type[Settings]] = Settings
    """The dataclass of the settings."""

    entry: ClassVar[Entry]
    """What the registry knows of it: its name."""
    Model: ClassVar[type[nn.Module]]
    Data: ClassVar[type[L.LightningDataModule]]
    Batch: ClassVar[type] = object
    """The class of the batches that the data module's loaders give."""
    tokenizer_of_data: ClassVar[str] = "vocabulary"
    """The data module's attribute that holds the tokenizer."""
    compute_scores: Callable[..., dict[str, Tensor]]
    """A method that takes the columns of a data set, as :meth:`score` returns them, and returns its
    scores besides ``loss``, by name. One that is a share of texts it returns as whether each
    counts, ``(b)``; its interval is then that of a share.
    """
    higher_is_better: ClassVar[Mapping[str, bool]]
    """The scores of one data set, ``loss`` and those that :meth:`compute_scores` computes, and
    which way is better.
    """
    monitor: ClassVar[str]
    """The default of ``checkpoint.monitor``: the score that selects the best checkpoint."""
    training_names: ClassVar[tuple[str, ...]] = (
        *("loss", "lr", "grad_norm", "skipped", "tokens_per_second"),
        "auxiliary_loss",
    )
    """The names of what training logs, the last one where the model has such losses."""
    training_settings: ClassVar[frozenset[str]] = frozenset({"optim", "compute"})
    """The sections of the recipe that only training reads."""
    example: ClassVar[Mapping[str, Any]]
    """A small recipe of generated data, with which the task is held to its contracts."""
    line_batches: ClassVar[Callable[..., Iterable[Any]]]
    """Makes the batches of lines: a function with the arguments of
    :func:`tfzoo.data.batches.text_batches`.
    """
    about: ClassVar[str]
    """What ``tfzoo predict`` does with a line, in a few words. It is read from the source without
    an import: write it as a literal.
    """
    epilog: ClassVar[str] = ""
    """What it writes, for the help of ``tfzoo predict``."""
    input_hint: ClassVar[str] = ""
    """A sentence on what a text needs, for the page of ``tfzoo serve``."""
    Answer: ClassVar[type]
    """The dataclass of what ``tfzoo serve`` answers to one text."""
    smooths_labels: ClassVar[bool] = True
    """Whether its loss reads ``optim.label_smoothing``; a recipe of another task has 0 there."""
    pipeline_tag: ClassVar[str] = "other"
    """The Hub's name of the task."""
    shares: ClassVar[str] = ""
    """Its scores from 0 to 1 that are printed in percent, with spaces between them. As of
    ``about``, it is read from the source, and so are the next ones.
    """
    percentages: ClassVar[str] = ""
    """Its scores from 0 to 100 that are printed in percent."""
    label: ClassVar[str] = ""
    """What labels it reads if they are no classes, such as ``number``: other tasks name it then."""
    published: ClassVar[str] = ""
    """The class of model of which a folder of ``transformers`` makes a run of this task; of a
    classifier its ``problem_type``, or ``words``: one of words.
    """

    samples: int | None = None
    """How many texts each validation prints with what the model makes of them; None: it prints
    none, and a recipe cannot say a number.
    """
    model: Any
    tokenizer: Any
    optim: Optim
    compute: Compute
    adapter: Adapter = Adapter()
    """What training adds to the model, see :class:`~tfzoo.learning.adapter.Adapter`."""
    seed: int
    recipe: dict[str, Any]
    began: dict[str, str]
    """Which of the weights that training began with were kept, which parts swapped, in words."""
    anew: list[str]
    """The names of those that training did not begin with, but started anew."""
    results: dict[str, float]
    """The scores of the run or repository that the task was loaded from."""
    beside: dict[str, Tensor]
    """Tensors beside the model's own that another one could begin with, such as BERT's pooler."""
    scores: list[Scores]
    """What was counted of each data set of the last evaluation."""

    def __init__(self, model: nn.Module, tokenizer: Any, **settings: Any) -> None:
        chosen = self.Settings.of(type(self).__name__, settings)
        super().__init__()
        vars(self).update(vars(chosen))
        self.batches = 0
        """Batches that this process has trained on."""
        self.tokens: Tensor | int = 0
        """Tokens that this process has trained on."""
        self.normalizer = GradientNormalizer()
        self.skipped_steps = SkippedSteps()
        self._parts_with_losses: dict[str, FeedForward] | None = None
        self._within_step = False  # after the first micro-batch of a step
        self._loaders: Sequence[Mapping[str, Any]] = ()  # the states of a checkpoint
        self._logged_tokens, self._logged_at = 0.0, time.perf_counter()
        self.throughput = InferenceThroughput()  # of the last evaluation
        self._figures: dict[str, Figures] = {}  # of the last test
        self.results = {}
        self.beside = {}
        self.began, self.anew = {}, []
        self.model = model
        self.tokenizer = tokenizer
        self.check_optim(self.optim)
        try:
            derived = self.model_arguments(tokenizer)
        except AttributeError as error:
            raise BadOption(
                f"{type(self).__name__}: the tokenizer of its data, data.{self.tokenizer_of_data}, "
                f"is needed, not {type(tokenizer).__name__}"
            ) from error
        self.foreign = "" if isinstance(model, self.Model) else class_path(type(model))
        if not self.foreign:
            self.check_model(model)
        given = {} if self.foreign else self.model.config
        check_sizes(given, derived)
        config = {key: value for key, value in given.items() if key not in derived}
        self.recipe = {"task": self.entry.name, "model": config, **chosen.recipe()}

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

    # What a task writes

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
    def restore_tokenizer(cls, state: Mapping[str, Any]) -> Any:
        """Make the tokenizer from :meth:`tokenizer_state`."""
        return Vocabulary.restore(state)

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        """The loss of a batch: log it with :meth:`log_training`, and return :meth:`summed`."""
        raise NotImplementedError

    def score(self, batch: Any) -> tuple[Any, ...]:
        """The losses of a batch and the weights to divide their sum by; and columns ``(b ...)`` of
        what :meth:`compute_scores` needs of each text.
        """
        raise NotImplementedError

    def prediction_columns(self, batch: Any) -> Mapping[str, Sequence[Any]]:
        """The items of a batch by column: input, prediction and reference; a column that the batch
        does not hold is empty.
        """
        raise NotImplementedError

    def forward_batch(self, batch: Any) -> object:
        """Run the model as ``training_step`` does, for callbacks that registered forward hooks.
        Here: by its ``loss(batch)``.
        """
        return self.loss(batch)  # type: ignore[operator]  # a module, or a method of a subclass

    def output_line(self, answer: Any, given: Namespace) -> str:
        """An :attr:`Answer` as the line that ``tfzoo predict`` writes. ``given`` are the values of
        its options.
        """
        raise NotImplementedError

    def answers_of(self, batch: Any) -> list[Any]:
        """The :attr:`Answer` to each text of a batch; ``truncated`` is set later."""
        raise NotImplementedError

    def facts(self, answer: Any) -> dict[str, str]:
        """An :attr:`Answer` as the lines of a page."""
        raise NotImplementedError

    # What it may write

    def record_attention(self, batch: Any, record: Record, answer: Any) -> Any:
        """Have ``record(run, tokens)`` call a forward pass of a batch of one text; ``tokens`` are
        the query and the key tokens of each side. Return the :attr:`Answer` to the text, which is
        ``answer`` where that is known. Here: of an encoder that reads ``batch.tokens``.
        """
        tokens = token_strings(self.tokenizer.tokenizer, batch.tokens[0].tolist())
        (found,) = record(lambda: self.answers_of(batch), {"encoder": (tokens, tokens)})
        return found

    def output_lines(
        self, lines: Sequence[str], given: Namespace, **reading: Unpack[Reading]
    ) -> Iterable[str]:
        """What ``tfzoo predict`` writes for these lines, in their order: an :meth:`output_line` for
        each, or several; a :class:`Part` is no whole line. Called for each chunk of the input.

        Args:
            given: the values of the command's options.
            reading: how lines are read, for the method that reads them.
        """
        answers = self.for_lines(lines, self.answers_of, **reading)
        return (self.output_line(answer, given) for answer in answers)

    def output_header(self, given: Namespace) -> str | None:
        """What the command writes above its first line, None: nothing. Called once."""
        return None

    @classmethod
    def add_arguments(cls, parser: ArgumentParser) -> None:
        """Add the task's options of ``tfzoo predict``."""
        parser.epilog = cls.epilog

    @classmethod
    def check_arguments(cls, given: Namespace) -> None:
        """Check the command's options before a run is loaded; raise a ``TfzooError``."""

    def to_try(self, text: str) -> str:
        """What ``tfzoo predict`` is shown with after a training, made of a text of validation."""
        return text

    @property
    def text_names(self) -> list[str]:
        """The names of the texts that one answer is about: two where the model reads pairs."""
        return ["text"]

    def stream(self, text: str) -> Iterator[Any]:
        """The :attr:`Answer` to one text; before it, of a task whose answers grow, each piece of it
        as it comes, a ``str``.
        """
        yield from self.answers([text])

    @property
    def untrained_loss(self) -> float | None:
        """``log(classes)``: the loss of a model that gives all classes, or all words, the same
        probability; None if the task has no such loss.
        """
        return None

    @property
    def untrained_scores(self) -> dict[str, float]:
        """What a model scores that gives all classes, or all words, the same probability, as far as
        it is known: in a sweep it stands for a score that is not finite.
        """
        found = {name: 0.0 for name, higher in self.higher_is_better.items() if higher}
        if (loss := self.untrained_loss) is not None:
            found |= {"loss": loss, "perplexity": math.exp(loss), "accuracy": math.exp(-loss)}
        found["auroc"] = 0.5
        return {name: score for name, score in found.items() if name in self.higher_is_better}

    def constant_loss(self, data: Any) -> float | None:
        """The smallest loss that the same prediction for every label in validation reaches, such
        as the entropy of its classes, or of its tokens; None if there is none. A run of a sweep
        whose last ``val/loss`` is no smaller has diverged.
        """
        return None

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
                f"optim.label_smoothing: task {cls.entry.name!r} does not choose among classes, "
                "so there is nothing to smooth; leave it out, or set it to 0"
            )

    @classmethod
    def starting_values(cls, folder: Path) -> dict[str, Any]:
        """What a recipe takes from a folder of ``transformers`` whose weights its training starts
        with, see :func:`tfzoo.learning.published.starting_values`.
        """
        from tfzoo.learning.published import starting_values

        return starting_values(folder, cls.Model, cls.model_arguments())

    @classmethod
    def starting_model(cls, own: Mapping[str, Any]) -> dict[str, Any]:
        """The options of a model that a recipe takes from one that no recipe has trained, see
        :func:`tfzoo.learning.published.starting_model`.
        """
        from tfzoo.learning.published import starting_model

        return starting_model(own, cls.Model, cls.model_arguments())

    @classmethod
    def complete(cls, found: dict[str, Any], folder: Path) -> None:
        """Complete what :func:`tfzoo.learning.published.read` has made of a folder: a checkpoint of
        this task with the model's weights, its options, and its tokenizer with labels.
        """

    def max_positions(self) -> tuple[int | None, int | None]:
        """The maximum number of source tokens and of target tokens; None: any number."""
        return None, None

    def max_length(self) -> int | None:
        """The most tokens that are read of a text, special ones included; None: all."""
        return min((limit for limit in self.max_positions() if limit is not None), default=None)

    def baselines(self, data: Any, name: str) -> Mapping[str, Mapping[str, float]]:
        """What simple guesses reach on a test set: by score, by what is guessed."""
        return {}

    @classmethod
    def measures(cls, score: str, dataset: Any, split: str) -> bool:
        """Whether a score is computed on this split of a built-in data set."""
        return score in cls.higher_is_better

    def figures(self, columns: Sequence[Tensor], title: str) -> Figures:
        """What draws the pictures of the columns of a test set, by name."""
        return {}

    def model_to_export(self, *, keep_adapter: bool = False) -> nn.Module:
        """A copy of the model on the CPU, in evaluation mode, whose outputs are the task's; its
        adapter is merged, unless ``keep_adapter``.
        """
        model: nn.Module = copy.deepcopy(self.model)
        if not keep_adapter:
            merge(model)
        return model.cpu().eval()

    # From a recipe or a checkpoint

    @classmethod
    def settings(cls) -> dict[str, type]:
        """The dataclass settings by name: recipe sections besides ``model`` and ``data``."""
        return {**cls.Settings.sections(), "adapter": Adapter}

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
        adapter = settings.pop("adapter")
        task = cls(model, tokenizer, seed=seed, **settings, **recipe.get("options", {}))
        options = {key: task.recipe[key] for key in ("options",) if key in task.recipe}
        task.adapter, task.recipe = adapter, {**recipe, **options}
        if recipe.get("samples") is not None:
            task.samples = recipe["samples"]
        return task

    @classmethod
    def load(cls, run: str | Path, model: nn.Module | None = None) -> Self:
        """Load a trained run, one of its checkpoints, or what :meth:`save_pretrained` or
        :meth:`push_to_hub` wrote, in evaluation mode. For the folder of a run, this loads its best
        checkpoint.

        Args:
            run: a folder, a checkpoint, or a repository of the Hugging Face Hub,
                ``hf://name/repository`` or ``hf://name/repository@revision``.
            model: for a task that was trained with a model of another class than tfzoo's: an
                instance of that class with the same structure. It gets the trained weights.

        Raises:
            BadRun: no such run; or the checkpoint is damaged, of another task, or not a checkpoint
                of tfzoo; or its model is not tfzoo's, and none is given.
        """
        trained = Run(run)
        trained.check_task(cls.entry.name)
        task: Self = trained.load(cls, model=model)
        return task

    @classmethod
    def load_from_checkpoint(cls, checkpoint_path: Any, *args: Any, **kwargs: Any) -> Self:
        """:meth:`load`, by Lightning's name."""
        return cls.load(checkpoint_path, *args, **kwargs)

    @classmethod
    def from_checkpoint(
        cls,
        checkpoint: Mapping[str, Any],
        model: nn.Module | None = None,
        keep_adapter: bool = False,
    ) -> Self:
        """Build the task from the contents of a checkpoint file, around ``model`` if given; without
        one, its tensors become the task's. Its adapter, if it has one, is merged, unless
        ``keep_adapter``.
        """
        task: Self = restored(cls, checkpoint, model, keep_adapter)
        return task

    def tokenizer_state(self) -> dict[str, Any]:
        """The tokenizer as numbers, strings, lists and dicts, as a checkpoint stores it."""
        state: dict[str, Any] = self.tokenizer.state()
        return state

    # Training

    def setup(self, stage: str) -> None:
        """Check the data."""
        # Buffers are equal in all processes. DDP would broadcast them before each forward pass, and
        # a process with more batches to score than the others would wait forever.
        adapters.ignore_in_ddp(self, [name for name, _ in self.named_buffers()])
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
                    fewer = f"set data.max_length to {limit - 2}, or " if name == "train" else ""
                    raise BadOption(
                        f"{name} has a text of {tokens:,} tokens, and the model's positions end at "
                        f"{limit:,}: {fewer}raise model.max_length"
                    )
        theirs = getattr(data, self.tokenizer_of_data, None)
        if theirs is None or theirs is self.tokenizer:
            return
        if theirs.state() != self.tokenizer_state():
            raise BadOption(
                "the data was prepared with another tokenizer than the model's; set "
                f"data.{self.tokenizer_of_data} = task.tokenizer before data.prepare_data()"
            )

    def check_batch(self, batch: Any) -> None:
        """Check that a loader gives what the task reads.

        Raises:
            BadData: it gives something else.
        """
        if not isinstance(batch, self.Batch):
            raise BadData(
                f"a batch of task {self.entry.name!r} is a {class_path(self.Batch)}, not a "
                f"{type(batch).__name__}: give the DataLoader a collate_fn that makes one"
            )

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
        """Give the model its adapter, beside which nothing else is trained, and freeze what
        ``optim.freeze`` names.
        """
        self.adapter.apply(self.model, self.seed)
        self.optim.check_model(self.model)
        if self.optim.freeze_steps is None:
            for parameter in self.optim.frozen(self.model):
                parameter.requires_grad_(False)

    def configure_callbacks(self) -> list[L.Callback]:
        """What averages the weights, if ``optim.average`` is set.

        Raises:
            BadOption: another callback averages them, too.
        """
        if self.optim.average is None:
            return []
        for callback in getattr(adapters.trainer_of(self), "callbacks", []):
            if isinstance(callback, WeightAveraging) and not isinstance(callback, WarmupEMA):
                raise BadOption(
                    f"optim.average and the callback {type(callback).__name__} both average the "
                    "weights: leave one of them out"
                )
        return [WarmupEMA(self.optim.average)]

    def configure_optimizers(self) -> Any:
        steps = self.trainer.estimated_stepping_batches
        most = int(steps) if steps != float("inf") else 2**31
        return self.optim.optimizer_and_schedule(self, max_steps=most)

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
        """Check that a score is not taken the wrong way round, such as ``max`` for ``val/loss``.

        Raises:
            BadOption: it is.
        """
        right = cls.mode(metric)
        if metric.rpartition("/")[2] in cls.higher_is_better and mode != right:
            better = "lower" if right == "min" else "higher"
            raise BadOption(f"{metric} is better the {better} it is: set mode to {right}")

    def on_train_start(self) -> None:
        self.normalizer.reset()
        self._within_step = False
        self._parts_with_losses = None
        self._restart_clock()
        self._check_warmup()
        self._go_on()

    def _go_on(self) -> None:
        """Restore, after a checkpoint, what Lightning 2.6 does not. Its loops load the state of a
        data loader in the middle of an epoch alone, and into none that was made before, as the
        schedule does to know the number of steps; after a whole epoch they take one batch more.
        """
        loader, loop = self.trainer.train_dataloader, self.trainer.fit_loop
        epochs: Any = loop.epoch_progress.current
        if self._loaders and isinstance(loader, TrainingLoader | StreamLoader):
            loader.load_state_dict(self._loaders[0])
        self._loaders = ()
        batches, is_over = (
            loop.epoch_loop.batch_progress.current,
            epochs.processed == epochs.started,
        )
        if is_over and batches.completed == self.trainer.num_training_batches:
            batches.reset()

    def _check_warmup(self) -> None:
        """Warn of a learning rate that does not reach its peak."""
        steps = self.trainer.estimated_stepping_batches
        for scheduled in self.trainer.lr_scheduler_configs:
            factors = getattr(scheduled.scheduler, "lr_lambdas", [])
            if factors and 0 < steps < float("inf"):
                last = factors[0](steps - 1)
                if last < 1 and (steps == 1 or factors[0](steps - 2) < last):
                    notify(
                        f"warmup is longer than the training's {steps:,.0f} steps: the learning "
                        f"rate rises until the end and reaches {last:.2g} of optim.lr "
                        "(optim.schedule.warmup)"
                    )

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        self.check_batch(batch)
        if not self._within_step:  # Lightning drops the last step's gradients after the forward
            for optimizer in self.trainer.optimizers:
                optimizer.zero_grad()
        self._reseed(self.batches)
        self.batches += 1  # before any callback saves a checkpoint at the end of the batch
        self._within_step = True

    def summed(self, loss: Tensor, count: Tensor | float) -> Tensor:
        """Record the sum of a batch's losses and ``count``, the number to divide it by, such as the
        number of tokens. Returns the loss, with auxiliary losses, for ``training_step`` to return.
        """
        self.normalizer.add(loss, count)
        auxiliary = take_auxiliary_loss(self.parts_with_losses.values())
        return loss if auxiliary is None else loss + count * auxiliary

    @property
    def parts_with_losses(self) -> dict[str, FeedForward]:
        """The parts of the model that have an auxiliary loss, by name."""
        if self._parts_with_losses is None:
            self._parts_with_losses = parts_with_losses(self.model)
        return self._parts_with_losses

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        self._check_skipped()
        trainer, normalizer = self.trainer, self.normalizer
        if trainer.global_step < (self.optim.freeze_steps or 0):
            for parameter in self.optim.frozen(self.model):
                parameter.grad = None
        log_loss = normalizer.total is not None
        clips = trainer.gradient_clip_algorithm in CLIP_BY_NORM
        finite = normalizer.normalize_(
            [parameter for group in optimizer.param_groups for parameter in group["params"]],
            trainer.world_size,
            trainer.accumulate_grad_batches,
            trainer.gradient_clip_val if clips else None,
        )
        skip_unless(finite, optimizer)
        # GradScaler lowers its scale after an overflow; such steps do not count here.
        scaler = getattr(trainer.precision_plugin, "scaler", None)
        self.skipped_steps.add(~finite, tolerated=scaler is not None and scaler.get_scale() > 1)
        self._within_step = False
        normalizer.reset()
        if log_loss:
            self.log("train/loss", normalizer.loss, prog_bar=True)
        if self._logs_now():
            self.log_dict(
                {
                    "train/grad_norm": normalizer.norm,
                    "train/skipped": float(self.skipped_steps.total),
                }
            )

    def on_validation_model_eval(self) -> None:
        if self.trainer.state.fn == "fit":
            self._check_skipped()  # before decoding with weights that may not be finite
        super().on_validation_model_eval()

    def on_train_end(self) -> None:
        self._check_skipped()  # the last step

    def configure_gradient_clipping(
        self,
        optimizer: Any,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clip by value as Lightning does. ``normalize_`` has already clipped by norm."""
        if gradient_clip_algorithm not in CLIP_BY_NORM:
            super().configure_gradient_clipping(
                optimizer, gradient_clip_val, gradient_clip_algorithm
            )

    def log_training(self, values: Mapping[str, Tensor], tokens: Tensor | int) -> None:
        """Count a batch's tokens, and log ``train/loss`` if it is among the values. At logging
        steps also log the other values, auxiliary losses and shares of experts, the learning rate,
        and the tokens per second since the last logging step: this process's rate times the number
        of processes.
        """
        self.tokens = self.tokens + tokens
        if "train/loss" in values:
            self.log("train/loss", values["train/loss"], prog_bar=True)
        if self._logs_now():
            now, counted = time.perf_counter(), float(self.tokens)
            seconds = max(now - self._logged_at, 1e-9)
            speed = self.trainer.world_size * (counted - self._logged_tokens) / seconds
            self._logged_tokens, self._logged_at = counted, now
            self.log_dict({key: value for key, value in values.items() if key != "train/loss"})
            extra = measured(self.parts_with_losses)
            self.log_dict({f"train/{key}": value for key, value in extra.items()})
            self.log("train/lr", self.trainer.optimizers[0].param_groups[0]["lr"])
            self.log("train/tokens_per_second", float(speed), prog_bar=True)

    @property
    def skipped(self) -> int:
        """Steps skipped so far. Waits for the device."""
        return int(self.skipped_steps.total)

    def _check_skipped(self) -> None:
        """End the training if too many steps in a row were skipped, up to the last step.

        Raises:
            NotFinite: ``optim.max_skipped`` steps in a row were skipped.
        """
        in_a_row = self.skipped_steps.last_in_a_row()
        if in_a_row >= self.optim.max_skipped:
            raise NotFinite(in_a_row)

    def _reseed(self, batches: int) -> None:
        seed = seed_of(self.seed, "step", batches, self.global_rank)
        # torch.manual_seed does the same, but takes milliseconds: it seeds all kinds of devices.
        torch.default_generator.manual_seed(seed)
        if self.device.type != "cpu":
            torch.get_device_module(self.device).manual_seed(seed)

    def _restart_clock(self) -> None:
        self._logged_tokens, self._logged_at = float(self.tokens), time.perf_counter()

    def _logs_now(self) -> bool:
        every = getattr(self.trainer, "log_every_n_steps", 0)
        return bool(every) and (self.trainer.global_step + 1) % every == 0

    # Evaluation

    def on_validation_start(self) -> None:
        self._start_scoring(1)

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        self._score(batch, dataloader_idx)

    def on_validation_epoch_end(self) -> None:
        for index in range(len(self.scores)):
            self._log_results(f"val/{index}" if index else "val", index, prog_bar=not index)

    def on_validation_end(self) -> None:
        self._restart_clock()  # training throughput excludes validation

    def on_test_start(self) -> None:
        self._start_scoring(max(len(self.test_names()), 1))

    def test_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        self._score(batch, dataloader_idx)

    def on_test_epoch_end(self) -> None:
        names, self._figures = self._scored_names(), {}
        for index, (name, scores) in enumerate(zip(names, self.scores, strict=True)):
            self._log_results(self._test_prefix(index), index)
            self._figures[name] = self.figures(scores.columns, name) if len(scores) else {}
        for name, figures in self._figures.items() if self.trainer.is_global_zero else ():
            for kind, draw in figures.items():
                log_figure(self.trainer.loggers, f"{name}/{kind}", draw, self.trainer.global_step)

    def save_figures(self, folder: Path) -> list[Path]:
        """Save the pictures of the last test in a folder, and return their paths: ``KIND.svg``, or
        ``KIND_SET.svg`` if there are several test sets.
        """
        paths = []
        for name, figures in self._figures.items():
            only = name == "test" or len(self._figures) == 1
            for kind, draw in figures.items():
                paths.append(folder / (f"{kind}.svg" if only else f"{kind}_{name}.svg"))
                save(draw(), paths[-1])
        return paths

    def _scored_names(self) -> list[str]:
        """The name of each test set that is scored; of loaders without one, their number."""
        names, sets = self.test_names(), len(self.scores)
        if not names and sets == 1:
            return ["test"]
        return [*names, *map(str, range(len(names), sets))]

    def _test_prefix(self, index: int) -> str:
        """The only test set, and one that is called "test", are logged as test/NAME."""
        names = self._scored_names()
        return "test" if len(names) == 1 or names[index] == "test" else f"test/{names[index]}"

    def beside_baselines(self, data: Any, scores: Mapping[str, float]) -> Iterator[str]:
        """``majority 12 %  root operator 25 %  accuracy 61 %``: each of the logged test scores of
        which there are :meth:`baselines`, after these.
        """
        if not scores:
            return
        name = "test" if "test" in data.test_names else data.test_names[0]
        for score, guesses in self.baselines(data, name).items():
            values = {**guesses, score: scores[f"test/{score}"]}
            yield "  ".join(f"{who} {format_score(score, one)}" for who, one in values.items())

    def test_names(self) -> list[str]:
        """The names of the test sets; empty if the data module has no ``test_names``."""
        return list(getattr(getattr(self.trainer, "datamodule", None), "test_names", []))

    def predict_step(
        self, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> list[dict[str, Any]]:
        """:meth:`prediction_rows` with ``index``, the row of each item in its data set."""
        self.check_batch(batch)
        rows = zip(batch.index, self.prediction_rows(batch), strict=True)
        return [{"index": index, **row} for index, row in rows]

    def prediction_rows(self, batch: Any) -> list[dict[str, Any]]:
        """A dict for each item of a batch: its :meth:`prediction_columns` that are not empty."""
        columns = {key: one for key, one in self.prediction_columns(batch).items() if len(one)}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

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

        Raises:
            BadRun: a number in a result is NaN.
        """
        found: dict[int, T] = {}
        training = self.training
        self.eval()
        try:
            for batch in batches:
                results = function(batch.to(self.device))
                plain = [vars(one) if is_dataclass(one) else one for one in results]
                if any(leaf != leaf for _, leaf in leaves(plain)):  # NaN alone
                    raise BadRun(
                        "the model gives NaN, so it has no answer: its training has diverged, or "
                        "its numbers are too large for their precision"
                    )
                found |= zip(batch.index, results, strict=True)
                if progress is not None:
                    progress(len(batch.index))
        finally:
            self.train(training)
        return [found[index] for index in sorted(found)]

    def _start_scoring(self, sets: int) -> None:
        self.scores = [Scores() for _ in range(sets)]
        self.throughput = InferenceThroughput()

    def intervals(self) -> dict[str, tuple[float, float]]:
        """The intervals of the scores of the last test (:meth:`~tfzoo.learning.scoring.Scores.
        intervals`), by the names under which they are logged.
        """
        return {
            f"{self._test_prefix(index)}/{name}": interval
            for index, scores in enumerate(self.scores)
            for name, interval in scores.intervals(self).items()
        }

    def _score(self, batch: Any, dataloader: int) -> None:
        self.check_batch(batch)
        while len(self.scores) <= dataloader:  # more data loaders than `test_names`
            self.scores.append(Scores())
        self.scores[dataloader].add(batch.index, *self.score(batch))

    def _log_results(self, prefix: str, index: int, prog_bar: bool = False) -> None:
        """Log the scores of a data set and its number of items, over all processes."""
        scores = self.scores[index]
        values = {f"{prefix}/{name}": value for name, value in scores.compute(self).items()}
        self.log_dict(values, prog_bar=prog_bar)
        self.log(f"{prefix}/items", float(len(scores)))

    # Texts

    def for_lines(
        self,
        lines: Iterable[str | Sequence[str]],
        function: Callable[[Any], list[T]],
        *,
        max_tokens: int = 4096,
        progress: OnProgress | None = None,
        on_truncated: OnTruncated | None = None,
    ) -> list[T]:
        """Apply ``function`` to batches of the lines; return the results in the order of the lines.

        Args:
            lines: texts; or pairs, ``(first, second)`` or ``"first<TAB>second"``, where the model
                reads pairs. A text longer than :meth:`max_length` is truncated.
            function: returns a list with an item for each text of a batch.
            max_tokens: maximum number of tokens of a batch.
            progress: called with the number of lines of each finished batch.
            on_truncated: called with the indices of truncated lines, if there are any, and the
                number of tokens that are read of each; None: a ``UserWarning`` counts them.

        Raises:
            BadData: ``lines`` is one string.
        """
        batches = self.line_batches(
            lines, self.tokenizer, max_tokens, self.max_length(), on_truncated
        )
        return self.in_order(batches, function, progress)

    def answers(self, texts: Iterable[str | Sequence[str]]) -> list[Any]:
        """The :attr:`Answer` to each text."""
        truncated: set[int] = set()
        found = self.for_lines(
            texts, self.answers_of, on_truncated=lambda rows, _: truncated.update(rows)
        )
        for row in truncated:
            found[row].truncated = True
        return found

    def attention(self, text: str | Sequence[str], answer: Any = None) -> AttentionMaps:
        """The attention maps of one text, by side and layer by layer::

            for one in task.attention("twenty plus two"):
                print(one.side, one.layer, one.weights.shape, one.queries, one.keys)

        A notebook's cell that ends in ``task.attention("...")`` shows them as a page. A text longer
        than :meth:`max_length` is truncated. The decoder of a translator reads the translation.

        Args:
            text: a text; or a pair, ``(first, second)`` or ``"first<TAB>second"``, where the model
                reads pairs.
            answer: the :attr:`Answer` to it, if that is known.

        Raises:
            BadData: the text is empty, or not one text.
            BadOption: the model is not tfzoo's, or no layer has a map.

        Warns:
            UserWarning: names the layers without a map; or says that the text is truncated.
        """
        page = page_of(self, text, answer)
        for note in page.notes:
            warnings.warn(note, stacklevel=2)
        return page

    # Checkpoints

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["tfzoo"] = self.checkpoint_entry()

    def checkpoint_entry(self) -> dict[str, Any]:
        adapter = {"adapter": asdict(self.adapter)} if self.adapter.name else {}
        return {
            "format": checkpoints.FORMAT,
            "task": self.entry.name,
            "recipe": {**self.recipe, **adapter},
            "tokenizer": self.tokenizer_state(),
            "batches": self.batches,
            "skipped": self.skipped,
            "text": self._content(),
            **({"foreign": self.foreign} if self.foreign else {}),
            **({"began": self.began, "anew": self.anew} if self.began else {}),
        }

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        kept = checkpoint["tfzoo"]
        if kept["tokenizer"] != self.tokenizer_state():
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
        self._loaders = loop.get("combined_loader", [])
        self.skipped_steps.total = kept.get("skipped", 0)

    def save_pretrained(self, folder: str | Path, *, repository: str = "") -> None:
        """Write a folder with the weights in safetensors (``model.safetensors``), recipe and
        tokenizer in JSON and a model card (``README.md``), which :meth:`load` and all commands
        read::

            task = tfzoo.TranslationTask.load("runs/numbers/1")
            task.save_pretrained("numbers")
            tfzoo.TranslationTask.load("numbers").translate(["twenty plus two"])

        The folder is written under a temporary name, read back and compared, then renamed. Absolute
        paths in the recipe are shortened to their last part.

        Args:
            folder: a new or an empty folder.
            repository: ``name/repository`` on the Hub, for the model card.

        Raises:
            TfzooError: the folder exists and is not empty, or cannot be written.
        """
        write_pretrained(self, folder, repository)

    def push_to_hub(
        self,
        repository: str,
        *,
        private: bool | None = None,
        commit_message: str = "Upload a model of tfzoo",
    ) -> str:
        """Upload what :meth:`save_pretrained` writes to a repository of the Hugging Face Hub, which
        is created if there is none, and return the address of the commit. Log in before, with ``hf
        auth login`` or the variable ``HF_TOKEN``.

        Args:
            repository: ``name/repository``.
            private: whether a new repository is private; None: the organisation's default.
            commit_message: the message of the commit.

        Raises:
            TfzooError: the Hub refuses it, or cannot be reached.
        """
        with TemporaryDirectory() as place:
            folder = Path(place) / "model"
            self.save_pretrained(folder, repository=repository)
            return hub.upload(folder, repository, private=private, message=commit_message)

    def _content(self) -> str:
        """A hash of the training text, or "" if the data has none."""
        data = getattr(adapters.trainer_of(self), "datamodule", None)
        return getattr(data, "content", "")


def check_sizes(given: Mapping[str, Any], derived: Mapping[str, Any]) -> None:
    """Check that a model has the sizes that are derived from the tokenizer, such as ``vocab_size``,
    because these are not in a checkpoint's recipe. ``source_vocab_size=None`` means ``vocab_size``.

    Raises:
        BadOption: a size differs.
    """
    for key in derived.keys() & given.keys():
        has, needs = given[key], derived[key]
        if key == "source_vocab_size":
            has, needs = has or given["vocab_size"], needs or derived["vocab_size"]
        if has != needs:
            raise BadOption(
                f"the model has {key}={has}, but the tokenizer or the labels need {key}={needs}"
            )
