"""An ONNX file of a trained task, ``model.onnx``, to be run without PyTorch.

A classifier reads ``tokens`` ``(b n)`` and ``lengths`` ``(b)`` and gives ``logits``
``(b classes)``; a language model ``logits`` ``(b n v)`` of the next token after each, and a masked
one of the token at each place. A translator reads ``source`` ``(b k)``, ``lengths`` ``(b)`` and all
``tokens`` ``(b t)`` so far, BOS included, and gives ``logits`` ``(b t v)`` of the next token after
each. Nothing is kept between two calls.

Ids and lengths are int64. The first ``lengths`` tokens of each row are real, and what follows is
padding, of any id. Everything else is fp32. The sizes ``b``, ``k``, ``n`` and ``t`` are dynamic.
"""

import logging
import warnings
from collections.abc import Sequence
from pathlib import Path
from traceback import walk_tb
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim

from tfzoo.base.files import new_folder
from tfzoo.contracts import Component
from tfzoo.errors import BadOption
from tfzoo.exporting.model import own_model, sample, write_tokenizer
from tfzoo.learning.task import Task
from tfzoo.masks import Mask
from tfzoo.models.transformer import Transformer

SIZES = {5: 3, 1: 1, 17: 7}
"""The lengths of texts at which the file is compared with the model, and of their translations. The
model is traced at the first.
"""
TOLERANCE = 1e-4


class Logits(nn.Module):
    """What ``model.onnx`` computes: ``(b n), (b)``, and of a translator ``(b t)``, to logits."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, lengths: Tensor, target: Tensor | None = None) -> Tensor:
        mask = Mask.right(lengths, tokens.shape[1])
        if target is None:
            return self.model(tokens, mask=mask)  # type: ignore[no-any-return]
        return self.model(tokens, target, source_mask=mask)  # type: ignore[no-any-return]


def export(task: Task, folder: Path) -> None:
    """Write the file and the task's tokenizer to a new folder. Before that, it is compared with the
    model in onnxruntime at several lengths, with padding.

    Raises:
        BadOption: a part of the model cannot be exported, or computes something else in ONNX.
        TfzooError: the folder exists and is not empty, or cannot be written.
    """
    model: Any = own_model(task, "onnx").float()
    for part in model.modules():
        if isinstance(part, Component) and "breaks_graph" in part.entry.traits:
            raise BadOption(f"onnx: {part.entry.kind} {part.entry.name!r} cannot be traced")
    special, translates = task.tokenizer.special, isinstance(model, Transformer)
    most = min((limit for limit in task.max_positions() if limit), default=max(SIZES))
    examples: list[tuple[Tensor, ...]] = []
    sizes = (model.config.get(key) for key in ("vocab_size", "source_vocab_size"))
    size = min(one for one in sizes if one)
    for n, target in SIZES.items():
        text = sample(special, size, 2 if n == 5 else 3, min(n, most))
        answer = sample(special, size, len(text[1]), target)[0]
        examples.append((*text, answer) if translates else text)
    names = ["source", "lengths", "tokens"] if translates else ["tokens", "lengths"]
    with new_folder(folder) as place, torch.no_grad():
        write_tokenizer(task, place)
        write(Logits(model), examples, names, place / "model.onnx")


def write(
    module: nn.Module, examples: Sequence[tuple[Tensor, ...]], names: list[str], path: Path
) -> None:
    """Write a module to an ONNX file and compare both at the examples.

    Raises:
        BadOption: it cannot be exported, or computes something else.
    """
    logging.disable()
    try:
        with warnings.catch_warnings(action="ignore"):
            program: Any = torch.onnx.export(
                module,
                examples[0],
                dynamo=True,
                input_names=names,
                output_names=["logits"],
                dynamic_shapes=tuple(
                    dict.fromkeys(range(one.ndim), Dim.DYNAMIC) for one in examples[0]
                ),
                verbose=False,
            )
        program.save(path)  # weights over 1.5 GB in a file beside it
    except Exception as error:  # of any library below
        part = part_at_fault(error) or "this combination of parts"
        why = " ".join(f"{type(error).__name__}: {error}".split())
        raise BadOption(f"onnx: {part} cannot be exported ({why[:200]})") from None
    finally:
        logging.disable(logging.NOTSET)
    for example in examples:
        (found,), own = program(*example), module(*example)
        if found.shape != own.shape or not torch.allclose(found, own, TOLERANCE, TOLERANCE):
            n = example[0].shape[1]
            raise BadOption(f"onnx: {path.name} is not the model for a text of {n} tokens")


def part_at_fault(error: BaseException | None) -> str:
    """The component in whose code the first of an error and its causes arose; "" if none."""
    if error is None:
        return ""
    modules = [frame.f_locals.get("self") for frame, _ in walk_tb(error.__traceback__)]
    entries = [one.entry for one in modules if isinstance(one, Component)]
    own = f"{entries[-1].kind} {entries[-1].name!r}" if entries else ""
    return part_at_fault(error.__cause__ or error.__context__) or own
