"""Trained tasks in the formats of other programs, one file per format."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from tfzoo.base.loading import require
from tfzoo.errors import BadOption, UnknownName

if TYPE_CHECKING:
    from tfzoo.learning.task import Task

FORMATS = {
    "onnx": ("onnx", "onnxscript", "onnxruntime"),
    "ctranslate2": ("ctranslate2",),
    "transformers": ("safetensors",),
    "peft": ("safetensors",),
}
"""The formats, each with the packages that it needs."""


def export(task: Task, folder: str | Path, *, to: str) -> None:
    """Write a trained task to a new folder, after comparing what was written with the task.

    Args:
        to: ``onnx``, ``ctranslate2``, ``transformers`` or ``peft``. ``task.save_pretrained`` writes
            safetensors.

    Raises:
        UnknownName: another format.
        BadOption: no task is given, or a part of the model cannot be exported to this format.
        TfzooError: a package is missing, the folder exists and is not empty, or it cannot be
            written.
    """
    from tfzoo.learning.task import Task

    if not isinstance(task, Task):
        raise BadOption(
            f"export wants a task, not {type(task).__name__}: TranslationTask.load(RUN) reads one, "
            "and so does the task of each other kind of run"
        )
    if to not in FORMATS:
        raise UnknownName("format", to, FORMATS, "tfzoo export --help")
    for package in FORMATS[to]:
        require(package, "export")
    import_module(f"tfzoo.exporting.{to}").export(task, Path(folder))
