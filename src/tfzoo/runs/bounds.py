"""Limits on what a checkpoint may hold, checked before time or memory is spent on it."""

from __future__ import annotations

import io
import pickletools
from collections.abc import Mapping
from typing import IO, TYPE_CHECKING, Any
from zipfile import ZIP_STORED, ZipFile

from tfzoo.base.bounded_files import NODES
from tfzoo.base.values import DEPTH
from tfzoo.errors import BadRun

if TYPE_CHECKING:
    from torch import Tensor, nn

TABLES = 2**30
"""The most bytes of a model's buffers; a checkpoint does not hold them."""
NAMES = 2**23
"""The most bytes of the list of an archive's entries."""
OPERATIONS = 10 * NODES
"""The most operations of a pickle. Each value takes a few."""

PLAIN = (bool, int, float, str, bytes, type(None))
CALLED = "_instantiator"
"""The key that names a function for Lightning before 2.6.6 to call."""


class Archive(io.FileIO):
    """A file of which no more than :data:`NAMES` bytes are read at once until it is ``opened``:
    ``zipfile`` reads the list of the entries in one piece, and makes an object of each.
    """

    opened = False

    def read(self, size: int | None = -1, /) -> bytes:
        if self.opened:
            return super().read(size)
        data = super().read(NAMES + 1 if size is None or size < 0 else min(size, NAMES + 1))
        if len(data) > NAMES:
            raise BadRun(f"{self.name} lists more entries than a checkpoint has. It was not read")
        return data


def check_operations(stream: IO[bytes], path: object) -> None:
    """Refuse a pickle of more than :data:`OPERATIONS`, before any is executed.

    Raises:
        BadRun: it has more.
        ValueError: it is no pickle.
    """
    for number, _ in enumerate(pickletools.genops(stream)):
        if number >= OPERATIONS:
            raise BadRun(
                f"{path} holds more than {OPERATIONS:,} operations, as no checkpoint does. It was "
                "not unpacked"
            )


def check_pickles(archive: ZipFile, path: object) -> None:
    """Refuse an archive whose pickle has more than :data:`OPERATIONS`."""
    for name in archive.namelist():
        if name.endswith("data.pkl"):
            with archive.open(name) as stream:
                check_operations(stream, path)


def check_entries(archive: ZipFile, path: object) -> int:
    """Refuse an archive that unpacks to more than its size: one that is compressed, or whose
    entries overlap. Returns the bytes of the tensors in it.

    Raises:
        BadRun: nothing was unpacked.
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


def check_content(checkpoint: Any, path: object, size: int) -> None:
    """Refuse values that no checkpoint of tfzoo holds: objects other than tensors and plain values,
    tensors that are larger than their storage, keys by which Lightning calls functions. ``size`` is
    the number of bytes of tensors in the file.

    Raises:
        BadRun: naming the value.
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
            check_tensor(value, path)
            if hasattr(value, "untyped_storage"):
                storages[value.untyped_storage().data_ptr()] = value.untyped_storage().nbytes()
    if sum(storages.values()) > size:
        raise BadRun(
            f"{path} is damaged: it says that its tensors have {sum(storages.values()):,} bytes, "
            f"and holds {size:,}"
        )


def check_tensor(value: Any, path: object) -> None:
    """Refuse an object that is no plain tensor, and a tensor that is larger than its storage (as
    with a stride of 0).

    Raises:
        BadRun: naming the object.
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


def check_fit(model: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Check that the stored parameters are those of a task's model, which was built on the device
    ``meta``.

    Raises:
        BadRun: a shape differs, parameters are missing, or buffers are too large.
    """
    for name, wanted in model.state_dict(prefix="model.").items():
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
