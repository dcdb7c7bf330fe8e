"""What a stranger's file may hold at most: looked at before time or memory is spent on it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from zipfile import ZIP_STORED, ZipFile

from tfzoo.errors import BadRecipe, BadRun

if TYPE_CHECKING:
    from torch import Tensor, nn

NODES = 200_000
"""Values in a checkpoint, each counted as often as it is met."""
DEPTH = 32
"""Levels of a recipe or of a checkpoint."""
LAYERS = 1000
WIDTH = 10_000_000
"""The most that any other number of a model can be."""
NUMBER = 2**64
TABLES = 2**30
"""Bytes of the tables that a model makes for itself, which no checkpoint holds."""

PLAIN = (bool, int, float, str, bytes, type(None))
CALLED = "_instantiator"
"""The key that Lightning once called a function by."""


def numbers(tree: Mapping[str, Any], where: str, layers: int = LAYERS) -> None:
    """Refuse numbers with which building a model would take hours or all memory; ``layers`` is the
    most of a stack.

    Raises:
        BadRecipe: naming the key and the most that it can be.
    """
    for path, value in leaves(tree):
        if (
            not isinstance(value, int | float)
            or isinstance(value, bool)
            or (isinstance(value, float) and not math.isfinite(value))
        ):
            continue
        most = (
            (layers if path[-1] == "layers" else WIDTH)
            if path[0] == "model" and len(path) > 1
            else NUMBER
        )
        if abs(value) > most:
            key = ".".join(path)
            raise BadRecipe(
                f"{where if where == f'--{key}' else f'{where}: {key}'} is {value:.6g}; the most "
                f"is {most:,}"
            )


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every leaf of a tree and its keys."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from leaves(inner, (*path, str(key)))
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from leaves(inner, (*path, str(index)))
    elif path:
        yield path, value


def entries(archive: ZipFile, path: object) -> int:
    """Bytes of tensors in an archive. Refuses one that holds more than its size: deflated, or with
    entries that lie over each other.

    Raises:
        BadRun: before anything of it is unpacked.
    """
    found = archive.infolist()
    if any(entry.compress_type != ZIP_STORED for entry in found):
        raise BadRun(
            f"{path} is compressed, as no checkpoint is: a small file could so take all memory. "
            "It was not unpacked"
        )
    archive.fp.seek(0, 2)  # type: ignore[union-attr]  # it is open
    size = archive.fp.tell()  # type: ignore[union-attr]
    if sum(entry.file_size for entry in found) > size or len(
        {entry.filename for entry in found}
    ) < len(found):
        raise BadRun(f"{path} says that it holds more than its {size:,} bytes. It was not unpacked")
    return sum(entry.file_size for entry in found if "/data/" in entry.filename)


def content(checkpoint: Any, path: object, size: int) -> None:
    """Refuse what no checkpoint of tfzoo holds: other values than tensors and plain ones, tensors
    larger than what is stored of them, what others call functions by. ``size`` is the bytes of
    tensors that the file holds.

    Raises:
        BadRun: naming what it is.
    """
    if isinstance(checkpoint, Mapping):
        for key in ("hyper_parameters", "datamodule_hyper_parameters"):
            if key in checkpoint:
                raise BadRun(
                    f"{path} holds {key!r}, from which Lightning makes objects; tfzoo writes "
                    "none. It was refused"
                )
    left, storages = NODES, {}
    waiting: list[tuple[Any, int]] = [(checkpoint, 0)]
    while waiting:
        value, depth = waiting.pop()
        left -= 1
        if left < 0 or depth > DEPTH:
            raise BadRun(
                f"{path} holds more than {NODES:,} values or {DEPTH} levels of them; a checkpoint "
                "does not"
            )
        if isinstance(value, Mapping):
            if CALLED in value:
                raise BadRun(
                    f"{path} holds {CALLED!r}, by which Lightning calls a function; tfzoo writes "
                    "none. It was refused"
                )
            waiting += ((inner, depth + 1) for pair in value.items() for inner in pair)
        elif isinstance(value, list | tuple | set | frozenset):
            waiting += ((inner, depth + 1) for inner in value)
        elif not isinstance(value, PLAIN):
            tensor(value, path)
            if hasattr(value, "untyped_storage"):
                storages[value.untyped_storage().data_ptr()] = value.untyped_storage().nbytes()
    if sum(storages.values()) > size:
        raise BadRun(
            f"{path} is damaged: it says that its tensors have {sum(storages.values()):,} bytes, "
            f"and holds {size:,}"
        )


def tensor(value: Any, path: object) -> None:
    """Refuse what is no plain tensor, and one that is larger than its storage, as with a stride of
    0. Raises BadRun.
    """
    import torch

    if type(value) not in (torch.Tensor, torch.nn.Parameter):
        if isinstance(value, torch.dtype | torch.device):
            return
        raise BadRun(
            f"{path} holds a {type(value).__name__}; a checkpoint holds tensors and plain values. "
            "It was refused"
        )
    if value.layout is not torch.strided or value.device.type != "cpu" or value.is_quantized:
        raise BadRun(
            f"{path} holds a tensor of a kind that tfzoo does not write ({value.layout}, "
            f"{value.device}). It was refused"
        )
    if value.numel() * value.element_size() > value.untyped_storage().nbytes():
        raise BadRun(
            f"{path} holds a tensor of shape {list(value.shape)} of which only "
            f"{value.untyped_storage().nbytes()} bytes are stored"
        )


def fitting(model: nn.Module, state: Mapping[str, Tensor], prefix: str = "model.") -> None:
    """See that a model, built without memory, is the one whose parameters are stored.

    Raises:
        BadRun: another shape, more parameters than are stored, or tables too large.
    """
    for name, wanted in model.state_dict(prefix=prefix).items():
        found = state.get(name)
        if getattr(found, "shape", None) != wanted.shape:
            has = (
                "it is missing"
                if found is None
                else f"stored is {list(getattr(found, 'shape', []))}"
            )
            raise BadRun(
                f"the checkpoint's parameters do not fit its own recipe and tokenizer: {name} "
                f"would be {list(wanted.shape)}, {has}"
            )
    stored = {
        one.untyped_storage().data_ptr(): one.untyped_storage().nbytes() // one.element_size()
        for one in state.values()
    }
    if sum(one.numel() for one in model.parameters()) > sum(stored.values()):
        raise BadRun(
            "the checkpoint's recipe describes a model of more parameters than the checkpoint holds"
        )
    tables = sum(one.numel() * one.element_size() for one in model.buffers())
    if tables > TABLES:
        raise BadRun(
            f"the checkpoint's recipe describes a model with tables of {tables:,} bytes; the most "
            f"is {TABLES:,}"
        )
