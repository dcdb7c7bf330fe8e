"""ONNX files of a trained task, to be run without PyTorch.

A classifier is ``model.onnx``: ``tokens`` ``(b n)`` and ``lengths`` ``(b)`` to ``logits``
``(b classes)``.

A language model is ``model.onnx``: ``tokens`` ``(b n)`` and ``lengths`` ``(b)`` to ``logits``
``(b n v)`` of the next token after each, without a cache; of a masked one, of the token at each
place.

A translator is two files. ``encoder.onnx`` reads ``source`` ``(b k)`` and ``lengths`` ``(b)``, and
the decoder takes its first step, from BOS: it gives ``logits`` ``(b v)`` of the first token, and
the cache, one output ``present.*`` for each tensor in it. ``decoder_step.onnx`` reads ``source``,
``lengths``, all ``tokens`` ``(b t)`` so far, BOS included, and the cache, one input ``past.*`` for
each; it gives the logits of the next token and what has changed in the cache.

Ids and lengths are int64. The first ``lengths`` tokens of each row are real, and what follows is
padding, of any id. Everything else is fp32. The sizes ``b``, ``k``, ``n`` and ``t`` are dynamic.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from pathlib import Path
from traceback import walk_tb
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim

from tfzoo.base.special_ids import SpecialIds
from tfzoo.contracts import Component
from tfzoo.errors import BadOption
from tfzoo.exporting.model import own_model, write_tokenizer
from tfzoo.learning.task import Task
from tfzoo.masks import Mask
from tfzoo.models.cache import DecoderCache
from tfzoo.models.transformer import Transformer
from tfzoo.runs.files import new_folder

SIZES = {5: 3, 1: 1, 17: 7}
"""The lengths of texts at which files are compared with the model, and how many tokens of their
translations are in the cache. The model is traced at the first.
"""
TOLERANCE = 1e-4


class FirstStep(nn.Module):
    """``encoder.onnx``: encodes the source and decodes from BOS, ``start``."""

    def __init__(self, model: Transformer, start: int) -> None:
        super().__init__()
        self.model, self.start = model, start

    def forward(self, source: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
        """``(b k), (b)`` to ``(b v)`` and all tensors of the cache."""
        cache = self.model.init_cache(source, mask=Mask.right(lengths, source.shape[1]))
        logits = self.model.decode_step(torch.full_like(source[:, 0], self.start), cache)
        return logits, *named(cache).values()


class NextStep(nn.Module):
    """``decoder_step.onnx``: decodes from the last of the tokens so far. ``names`` are those of the
    tensors of the cache.
    """

    def __init__(self, model: Transformer, names: Sequence[str]) -> None:
        super().__init__()
        self.model = model
        self.names = names

    def forward(
        self, source: Tensor, lengths: Tensor, tokens: Tensor, *past: Tensor
    ) -> tuple[Tensor, ...]:
        """``(b k), (b), (b t)`` and the cache's tensors to ``(b v)`` and those of the target."""
        mask = Mask.right(lengths, source.shape[1])
        cache = DecoderCache(len(self.model.decoder.layers), mask)
        cache.length = tokens.shape[1] - 1
        for name, value in zip(self.names, past, strict=True):
            side, layer, key = name.split(".")
            getattr(cache, side)[int(layer)].tensors[key] = value
        logits = self.model.decode_step(tokens[:, -1], cache)
        return logits, *(
            value for name, value in named(cache).items() if name.startswith("target.")
        )


class Logits(nn.Module):
    """``model.onnx`` of a classifier, or of a language model."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
        """``(b n), (b)`` to ``(b classes)``, or ``(b n v)``"""
        return (self.model(tokens, mask=Mask.right(lengths, tokens.shape[1])),)


def named(cache: DecoderCache) -> dict[str, Tensor]:
    """The tensors of a cache by name: ``target.0.k`` is the one ``k`` of the target's layer 0."""
    return {
        f"{side}.{layer}.{key}": value
        for side, layers in (("target", cache.target), ("source", cache.source))
        for layer, kept in enumerate(layers)
        for key, value in kept.tensors.items()
    }


def export(task: Task, folder: Path) -> None:
    """Write the ONNX files of a task, and its tokenizer, to a new folder. Before they get their
    names, they are compared with the model in onnxruntime at several lengths, with padding.

    Raises:
        BadOption: a part of the model cannot be exported, or computes something else in ONNX.
        TfzooError: the folder exists and is not empty, or cannot be written.
    """
    model: Any = own_model(task, "onnx").float()
    for part in model.modules():
        if isinstance(part, Component) and "breaks_graph" in part.entry.traits:
            raise BadOption(f"onnx: {part.entry.kind} {part.entry.name!r} cannot be traced")
    special = task.tokenizer.special
    most = min((limit for limit in task.max_positions() if limit), default=max(SIZES))
    texts = [sample(special, 2 if n == 5 else 3, min(n, most)) for n in SIZES]
    inputs = ["tokens", "lengths"]
    with new_folder(folder) as place, torch.no_grad():
        write_tokenizer(task, place)
        if not isinstance(model, Transformer):
            write(Logits(model), texts, inputs, ["logits"], place / "model.onnx")
            return
        steps = [
            step(model, special, text, many)
            for text, many in zip(texts, SIZES.values(), strict=True)
        ]
        names = list(steps[0][1])
        outputs = ["logits", *(f"present.{one}" for one in names)]
        inputs[0] = "source"
        write(FirstStep(model, special.start), texts, inputs, outputs, place / "encoder.onnx")
        inputs += ["tokens", *(f"past.{one}" for one in names)]
        outputs = [one for one in outputs if not one.startswith("present.source")]
        examples = [
            (*text, tokens, *cache.values())
            for text, (tokens, cache) in zip(texts, steps, strict=True)
        ]
        write(NextStep(model, names), examples, inputs, outputs, place / "decoder_step.onnx")


def sample(special: SpecialIds, b: int, n: int) -> tuple[Tensor, Tensor]:
    """Ids of ``b`` texts of up to ``n`` tokens, each shorter by one than the one before, and their
    lengths.
    """
    ids = torch.tensor(special.ordinary(13))[torch.arange(b * n).reshape(b, n) % 13]
    lengths = (n - torch.arange(b)).clamp(min=1)
    return ids.masked_fill(torch.arange(n) >= lengths[:, None], special.fill), lengths


def step(
    model: Transformer, special: SpecialIds, text: tuple[Tensor, Tensor], many: int
) -> tuple[Tensor, dict[str, Tensor]]:
    """A translation of so ``many`` tokens, ``(b 1+t)``, and the cache of those before the last."""
    source, lengths = text
    tokens, _ = sample(special, len(source), 1 + many)
    cache = model.init_cache(source, mask=Mask.right(lengths, source.shape[1]))
    for token in tokens[:, :-1].unbind(1):
        model.decode_step(token, cache)
    return tokens, named(cache)


def write(
    module: nn.Module,
    examples: Sequence[tuple[Tensor, ...]],
    inputs: list[str],
    outputs: list[str],
    path: Path,
) -> None:
    """Write a module to an ONNX file and compare both at the examples. Axes of which the
    size differs among these are dynamic.

    Raises:
        BadOption: it cannot be exported, or computes something else.
    """
    axes = tuple(
        {
            axis: Dim.DYNAMIC
            for axis, size in enumerate(one.shape)
            if any(other[index].shape[axis] != size for other in examples)
        }
        for index, one in enumerate(examples[0])
    )
    shapes = (*axes[:3], axes[3:]) if len(axes) > 3 else axes
    logging.disable()
    try:
        with warnings.catch_warnings(action="ignore"):
            program: Any = torch.onnx.export(
                module,
                examples[0],
                dynamo=True,
                input_names=inputs,
                output_names=outputs,
                dynamic_shapes=shapes,
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
        for found, own in zip(program(*example), module(*example), strict=True):
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
