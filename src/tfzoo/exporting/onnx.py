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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tfzoo.base.special_ids import SpecialIds
from tfzoo.contracts import Component
from tfzoo.errors import BadOption
from tfzoo.exporting.failures import cannot_export, own_model
from tfzoo.exporting.files import write_tokenizer
from tfzoo.learning.task import Task
from tfzoo.masks import Mask
from tfzoo.models.cache import DecoderCache
from tfzoo.models.transformer import Transformer
from tfzoo.runs.files import new_folder

LENGTHS = (1, 2, 7, 16, 17, 64, 200)
"""The lengths at which files are compared with the model."""
STEPS = 12
"""The steps of decoding that are compared for each length."""
TOLERANCE = 1e-4
LARGEST = 2_000_000_000
"""The most bytes of parameters in an ONNX file; with more, they are in a file beside it."""


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
        return logits, *(value for name, value in named(cache).items() if changes(name))


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


def changes(name: str) -> bool:
    """Whether a step of decoding changes this tensor of the cache."""
    return name.startswith("target.")


def export(task: Task, folder: Path) -> None:
    """Write the ONNX files of a task, and its tokenizer, to a new folder. Before they get their
    names, they are compared with the model in onnxruntime at several lengths, with padding.

    Raises:
        BadOption: a part of the model cannot be exported, or computes something else in ONNX.
        TfzooError: the folder exists and is not empty, or cannot be written.
    """
    model = own_model(task, "onnx").float()
    for part in model.modules():
        if isinstance(part, Component) and "breaks_graph" in part.entry.traits:
            raise BadOption(
                f"onnx: {part.entry.kind} {part.entry.name!r} cannot be traced; "
                "--to safetensors exports all parts"
            )
    with new_folder(folder) as place, torch.no_grad():
        if hasattr(model, "encoder") and hasattr(model, "decoder"):
            translator(model, task.tokenizer.special, task.max_positions(), place)
        else:
            one_file(model, task.tokenizer.special, task.max_positions()[1], place)
        write_tokenizer(task, place)


def one_file(model: nn.Module, special: SpecialIds, limit: int | None, place: Path) -> None:
    """Write and compare ``model.onnx``."""
    module = Logits(model)
    example, names = sample(special, 2, 5), ["tokens", "lengths"]
    write(module, example, [(0, 1), (0,)], names, ["logits"], place / "model.onnx")
    session = Session(place / "model.onnx")
    for n in lengths(limit):
        tokens = sample(special, 3, n)
        compare("model.onnx", session(*tokens), module(*tokens)[0], n)


def translator(
    model: Any, special: SpecialIds, limits: tuple[int | None, int | None], place: Path
) -> None:
    """Write and compare ``encoder.onnx`` and ``decoder_step.onnx``."""
    source = sample(special, 2, 5)
    past, axes = cache_of(model, source, 3), dynamic_axes(model, special)
    changed = [name for name in past if changes(name)]
    write(
        FirstStep(model, special.start),
        source,
        [(0, 1), (0,)],
        ["source", "lengths"],
        ["logits", *map("present.{}".format, past)],
        place / "encoder.onnx",
    )
    write(
        NextStep(model, list(past)),
        (*source, sample(special, 2, 4)[0], *past.values()),
        [(0, 1), (0,), (0, 1), *axes.values()],
        ["source", "lengths", "tokens", *map("past.{}".format, past)],
        ["logits", *map("present.{}".format, changed)],
        place / "decoder_step.onnx",
    )
    compare_decoding(model, special, limits, place)


def cache_of(model: Any, source: tuple[Tensor, Tensor], steps: int) -> dict[str, Tensor]:
    """The tensors of the cache after so many steps of decoding."""
    ids, lengths = source
    cache = model.init_cache(ids, mask=Mask.right(lengths, ids.shape[1]))
    for _ in range(steps):
        model.decode_step(ids[:, 0], cache)
    return named(cache)


def dynamic_axes(model: Any, special: SpecialIds) -> dict[str, tuple[int, ...]]:
    """The axes of each tensor of the cache whose size depends on the batch or on a length."""
    examples = [cache_of(model, sample(special, *sizes), t) for *sizes, t in ((2, 5, 1), (3, 6, 4))]
    return {
        name: tuple(axis for axis in range(one.dim()) if one.shape[axis] != other.shape[axis])
        for (name, one), other in zip(examples[0].items(), examples[1].values(), strict=True)
    }


def compare_decoding(
    model: Any, special: SpecialIds, limits: tuple[int | None, int | None], place: Path
) -> None:
    """Compare both files with the model at each of the steps of decoding."""
    first, later = Session(place / "encoder.onnx"), Session(place / "decoder_step.onnx")
    for k in lengths(limits[0]):
        source, real = sample(special, 3, k)
        steps = min(STEPS, limits[1] or STEPS)
        start = torch.full((3, 1), special.start)
        tokens = torch.cat([start, sample(special, 3, steps)[0]], 1)
        cache = model.init_cache(source, mask=Mask.right(real, k))
        found = first(source, real)
        for t in range(steps):
            if t:
                past = {name.replace("present", "past"): one for name, one in found.items()}
                found |= later(source, real, tokens[:, : t + 1], **past)
            wanted = model.decode_step(tokens[:, t], cache)
            compare("encoder.onnx" if t == 0 else "decoder_step.onnx", found, wanted, k, t)


def write(
    module: nn.Module,
    example: tuple[Tensor, ...],
    axes: Sequence[Sequence[int]],
    inputs: list[str],
    outputs: list[str],
    path: Path,
) -> None:
    """Write a module to an ONNX file. ``axes`` are the dynamic ones of each input.

    Raises:
        BadOption: it cannot be exported.
    """
    size = sum(one.numel() * one.element_size() for one in module.parameters())
    given = [dict.fromkeys(one, torch.export.Dim.DYNAMIC) for one in axes]
    shapes = (*given[:3], tuple(given[3:])) if len(given) > 3 else tuple(given)
    try:
        with quiet():
            program = torch.onnx.export(
                module,
                example,
                dynamo=True,
                input_names=inputs,
                output_names=outputs,
                dynamic_shapes=shapes,
                verbose=False,
            )
        program.save(path, external_data=size > LARGEST)  # type: ignore[union-attr]  # with dynamo
    except OSError:
        raise
    except Exception as error:  # of any library below
        raise cannot_export("onnx", error) from None


class Session:
    """An ONNX file in onnxruntime: ``session(source, tokens, **past)`` gives outputs by name."""

    def __init__(self, path: Path) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        self.session = onnxruntime.InferenceSession(
            path, options, providers=["CPUExecutionProvider"]
        )
        self.inputs = [one.name for one in self.session.get_inputs()]
        self.outputs = [one.name for one in self.session.get_outputs()]

    def __call__(self, *ids: Tensor, **past: Tensor) -> dict[str, Tensor]:
        given = dict(zip(self.inputs, ids, strict=False)) | past
        feed = {name: given[name].numpy() for name in self.inputs}
        found = map(torch.from_numpy, self.session.run(None, feed))
        return dict(zip(self.outputs, found, strict=True))


def compare(file: str, found: dict[str, Tensor], wanted: Tensor, n: int, t: int = 0) -> None:
    """Check the logits of a file against those of the model, for a text of ``n`` tokens.

    Raises:
        BadOption: they differ.
    """
    logits = found["logits"]
    if logits.shape == wanted.shape and torch.allclose(logits, wanted, TOLERANCE, TOLERANCE):
        return
    apart = "shapes" if logits.shape != wanted.shape else f"{(logits - wanted).abs().max():.1g}"
    raise BadOption(
        f"onnx: {file} differs from the model by {apart} for a text of {n} tokens"
        + (f" at step {t}" if t else "")
    )


def sample(special: SpecialIds, b: int, n: int) -> tuple[Tensor, Tensor]:
    """Ids of ``b`` texts of up to ``n`` tokens, each shorter by one than the one before, and their
    lengths.
    """
    ids = torch.tensor(special.ordinary(13))[torch.arange(b * n).reshape(b, n) % 13]
    lengths = (n - torch.arange(b)).clamp(min=1)
    return ids.masked_fill(torch.arange(n) >= lengths[:, None], special.fill), lengths


def lengths(limit: int | None) -> list[int]:
    """The lengths at which files are compared, up to a limit."""
    return [n for n in LENGTHS if limit is None or n <= limit]


@contextmanager
def quiet() -> Iterator[None]:
    """Without what the exporter logs and warns of."""
    names = ("torch.onnx", "torch.export", "onnxscript", "onnx_ir", "torch.fx")
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
