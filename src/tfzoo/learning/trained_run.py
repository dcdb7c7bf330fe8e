"""A trained run, opened: which of its checkpoints is meant, what that holds, and its task."""

from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor

from tfzoo.base.loading import task_class
from tfzoo.errors import BadRun
from tfzoo.learning import published
from tfzoo.runs import checkpoints, pretrained
from tfzoo.runs.folder import CONFIG, recorded_scores


class TrainedRun:
    """A trained run, of which one checkpoint is used. It is read once, when it is first asked for.

    Args:
        name: a folder or checkpoint, as :func:`tfzoo.runs.checkpoints.find` takes it, or
            ``hf://name/repository``.

    Raises:
        BadRun: there is no such run. Whoever asks for its content gets the errors of
            :func:`tfzoo.runs.checkpoints.read`.
    """

    def __init__(self, name: str | Path) -> None:
        self.path = checkpoints.find(pretrained.place_of(name))
        """The checkpoint."""

    @property
    def folder(self) -> Path | None:
        """The folder of the run that the checkpoint lies in; None where it lies in none."""
        place = self.path.absolute().parent
        inside = place.name == checkpoints.FOLDER and (place.parent / CONFIG).is_file()
        return place.parent if inside else None

    @property
    def is_published(self) -> bool:
        """Whether it is a folder of ``transformers``."""
        return pretrained.is_published(self.path)

    @cached_property
    def content(self) -> dict[str, Any]:
        """What the checkpoint holds."""
        return published.read(self.path) if self.is_published else checkpoints.read(self.path)

    def forget(self) -> None:
        """Free the memory of :attr:`content`."""
        self.__dict__.pop("content", None)

    @property
    def entry(self) -> dict[str, Any]:
        """What a checkpoint has beside tensors: task, recipe, tokenizer and others."""
        entry: dict[str, Any] = self.content["tfzoo"]
        return entry

    @property
    def weights(self) -> dict[str, Any]:
        """Its parameters and tables by name; an adapter is merged into those of its model."""
        adapter, weights = self.entry["recipe"].get("adapter"), self.content["state_dict"]
        has_adapter = isinstance(adapter, dict) and adapter.get("name")
        return dict(self.load().state_dict() if has_adapter else weights)

    @property
    def task(self) -> Any:
        """The class of its task."""
        return task_class(self.entry["task"])

    def check_task(self, name: str) -> None:
        """Raise BadRun unless it is of the task of this name."""
        task = self.entry["task"]
        if task != name:
            raise BadRun(f"{self.path} is of the task {task!r}, not {name!r}")

    def load(self, task: Any = None, **options: Any) -> Any:
        """The task with the trained weights, and the scores that the run has recorded of them.
        ``task`` is its class, :attr:`task` or one derived from it; ``options`` are those of
        :meth:`tfzoo.learning.task.Task.from_checkpoint`.
        """
        content = self.content
        if self.path.is_file():  # it is mapped, and a process ends whose file is written over
            weights = {
                name: one.clone() if isinstance(one, Tensor) else one
                for name, one in content["state_dict"].items()
            }
            content = {**content, "state_dict": weights}
        loaded = (task or self.task).from_checkpoint(content, **options)
        if self.folder:
            loaded.results = recorded_scores(self.folder, self.path.name)
        return loaded
