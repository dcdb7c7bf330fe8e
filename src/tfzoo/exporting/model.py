"""What all formats need of a task: a copy of its model, the files of its tokenizer, texts to
compare at.
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tfzoo.base.special_ids import SpecialIds
from tfzoo.data.tokenizer import Tokenizer
from tfzoo.errors import BadOption
from tfzoo.learning.task import Task
from tfzoo.runs.pretrained import split_texts


def own_model(task: Task, to: str, *, keep_adapter: bool = False) -> nn.Module:
    """A copy of a task's model, see :meth:`~tfzoo.learning.task.Task.model_to_export`.

    Raises:
        BadOption: the model is of a class that is not tfzoo's.
    """
    if task.foreign:
        raise BadOption(f"{to}: the layers of {task.foreign}, which is not tfzoo's, are not known")
    return task.model_to_export(keep_adapter=keep_adapter)


def name_of(tokenizer: Tokenizer, token: int) -> str | None:
    """The name of an id: that of the tokenizer or its library, None where there is none."""
    named: Any = getattr(tokenizer, "name_of", None)
    library: Any = getattr(tokenizer, "library", None)
    return (named or getattr(library, "id_to_token", str))(token)  # type: ignore[no-any-return]


def write_tokenizer(task: Task, folder: Path) -> None:
    """Write the texts of the task's tokenizers, such as ``tokenizer.json`` for Hugging Face's
    library ``tokenizers``. Of two, ``tokenizer_1.json`` is the source's.
    """
    for name, text in split_texts(task.tokenizer.state())[1].items():
        (folder / name).write_text(text, "utf-8", newline="\n")


def sample(special: SpecialIds, size: int, b: int, n: int) -> tuple[Tensor, Tensor]:
    """Ids, of a vocabulary of ``size``, of ``b`` texts of up to ``n`` tokens, each shorter by one
    than the one before, and their lengths: ``(b n), (b)``.
    """
    some = torch.tensor(special.ordinary(min(13, size - len(special.every))))
    ids = some[torch.arange(b * n).reshape(b, n) % len(some)]
    lengths = (n - torch.arange(b)).clamp(min=1)
    return ids.masked_fill(torch.arange(n) >= lengths[:, None], special.fill), lengths
