"""How a trained task is loaded and shared: runs, checkpoints, exported folders, the Hub."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, NoReturn, Self

from torch import nn

from tfzoo.errors import BadRun
from tfzoo.runs import checkpoints, hub, pretrained, summary
from tfzoo.tasks.evaluation import Evaluator
from tfzoo.tasks.model_card import model_card


class Pretrained(Evaluator):
    """Loads a trained task, saves it as a folder without pickles, and pushes it to the Hub."""

    name: ClassVar[str]
    command: ClassVar[str]
    """The ``tfzoo`` command that applies the task's model to text, such as ``translate``."""
    pipeline_tag: ClassVar[str] = "other"
    """The Hub's name of the task."""
    recipe: dict[str, Any]
    results: dict[str, float]
    """The scores of the run or repository that the task was loaded from."""

    def __init__(self) -> None:
        super().__init__()
        self.results = {}

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
        path = checkpoints.resolve(run)
        checkpoint = checkpoints.read(path, task=cls.name)
        task = cls.from_checkpoint(checkpoint, model)
        folder = checkpoints.folder_of(path)
        task.results = summary.scores(folder, path.name) if folder else task.results
        return task

    @classmethod
    def load_from_checkpoint(cls, checkpoint_path: Any, *args: Any, **kwargs: Any) -> NoReturn:
        """Refused: :meth:`load` builds the task from its checkpoint.

        Raises:
            BadRun: always.
        """
        raise BadRun(
            f"use {cls.__name__}.load({str(checkpoint_path)!r}), which also restores the tokenizer"
        )

    @classmethod
    def from_checkpoint(cls, checkpoint: Mapping[str, Any], model: nn.Module | None = None) -> Self:
        """Build the task from the contents of a checkpoint file, around ``model`` if given."""
        raise NotImplementedError

    def checkpoint_entry(self) -> dict[str, Any]:
        """The entry ``tfzoo`` of a checkpoint: everything but tensors."""
        raise NotImplementedError

    def tokenizer_state(self) -> dict[str, Any]:
        """The tokenizer as numbers, strings, lists and dicts, as a checkpoint stores it."""
        raise NotImplementedError

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
        kept = {**self.checkpoint_entry(), "results": self.results}
        card = model_card(self, repository)
        pretrained.write(Path(folder), self.state_dict(), kept, card)

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
