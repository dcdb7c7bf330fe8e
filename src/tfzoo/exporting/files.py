"""Files that stand beside an exported model."""

from __future__ import annotations

from pathlib import Path

from tfzoo.learning.task import Task
from tfzoo.runs.pretrained import split_texts


def write_tokenizer(task: Task, folder: Path) -> None:
    """Write the texts of the task's tokenizers, such as ``tokenizer.json`` for Hugging Face's
    library ``tokenizers``. Of two, ``tokenizer_1.json`` is the source's.
    """
    for name, text in split_texts(task.tokenizer_state())[1].items():
        (folder / name).write_text(text, "utf-8", newline="\n")
