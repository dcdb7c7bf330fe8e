"""Sharded checkpoints: folders to which each process writes its shard. They are renamed to their
final name when they are complete, and nothing in them is executed when they are read.
"""

from __future__ import annotations

import io
import pickle
import shutil
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from tfzoo.base import bounded_files
from tfzoo.errors import BadRun
from tfzoo.runs import bounds
from tfzoo.runs.files import sync

INDEX = ".metadata"
"""The file that names, for each piece of each tensor, the file that holds it."""
BEFORE = ".before"
"""In the name of a checkpoint that is being replaced. It is still complete, and is used after a
crash.
"""
REST = "meta.pt"
"""The file of everything but tensors of model and optimiser; it is written last."""
HARMLESS = {
    "torch.distributed.checkpoint.metadata": {
        *(
            "Metadata",
            "MetadataIndex",
            "TensorStorageMetadata",
            "BytesStorageMetadata",
            "ChunkStorageMetadata",
            "TensorProperties",
        ),
        *("StorageMeta", "_MEM_FORMAT_ENCODING"),
    },
    "torch.distributed.checkpoint.filesystem": {"_StorageInfo"},
    "torch.serialization": {"_get_layout"},
    "torch": {
        "Size",
        *(name for name, value in vars(torch).items() if isinstance(value, torch.dtype)),
    },
    "pathlib": {"PosixPath", "WindowsPath", "Path"},
    "pathlib._local": {"PosixPath", "WindowsPath", "Path"},
    "collections": {"OrderedDict"},
}
"""The classes and functions that an index may name."""


def is_sharded(path: Path) -> bool:
    """Whether a path is a complete sharded checkpoint: its last file is there."""
    return (path / INDEX).is_file() and (path / REST).is_file()


def temporary_name(path: Path) -> Path:
    """The name, in the same folder, under which a checkpoint is written."""
    return path.with_name(f"{path.name}.tmp")


def rename(temporary: Path, path: Path) -> None:
    """Rename a complete checkpoint to its final name. The one that had this name is kept, as
    ``last.before.ckpt``, until then.
    """
    sync(temporary / REST)
    sync(temporary)
    before = path.with_name(f"{path.stem}{BEFORE}{path.suffix}")
    if path.exists():
        remove(before)
        path.rename(before)
    temporary.rename(path)
    sync(path.parent)
    remove(before)


def remove(path: Path) -> None:
    """Remove a checkpoint, folder or file. Its last file goes first, so that a folder that is half
    removed is no checkpoint.
    """
    if path.is_dir() and not path.is_symlink():
        (path / REST).unlink(missing_ok=True)
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def remove_leftovers(folder: Path) -> None:
    """Remove replaced and incomplete checkpoints that a killed process left."""
    for temporary in folder.glob("*.ckpt.tmp"):
        remove(temporary)
    for before in folder.glob(f"*{BEFORE}.ckpt"):
        if is_sharded(before.with_name(before.name.replace(BEFORE, ""))):
            remove(before)


def read(path: Path) -> dict[str, Any]:
    """The checkpoint as one process would have written it, with checksums checked and no code
    executed. States of optimisers are keyed by parameter name.

    Raises:
        BadRun: incomplete, damaged, or holding more than tensors and plain values.
    """
    index = read_index(path)
    pieces = check(path, index)
    found: dict[str, dict[str, Any]] = {}
    for name in index.state_dict_metadata:
        section, _, key = name.partition(".")
        found.setdefault(section, {})[key] = join(path, name, index, pieces)
    optimisers = [found[section] for section in sorted(found) if section.startswith("optimizer_")]
    return {
        **read_rest(path),
        "state_dict": found.get("state_dict", {}),
        "optimizer_states": optimisers,
    }


def read_rest(path: Path) -> dict[str, Any]:
    """Everything but tensors of model and optimiser."""
    bounded_files.regular(path / REST)
    with (path / REST).open("rb") as stream:
        found = piece(stream, path)
    if not isinstance(found, dict):
        raise BadRun(f"{path} is no checkpoint of tfzoo: its {REST} holds no names")
    return found


def read_index(path: Path) -> Any:
    """The index of a sharded checkpoint."""
    if not is_sharded(path):
        raise BadRun(
            f"{path} is no complete checkpoint: its last file, {REST}, is missing. Use another "
            "checkpoint of the run"
        )
    bounded_files.regular(path / INDEX, bounded_files.TEXT)
    try:
        with (path / INDEX).open("rb") as stream:
            bounds.check_operations(stream, path / INDEX)
            stream.seek(0)
            index = IndexUnpickler(stream).load()
        if not isinstance(index.storage_data, dict) or not isinstance(
            index.state_dict_metadata, dict
        ):
            raise TypeError
    except BadRun as error:
        raise BadRun(f"{path}: {error}") from None
    except Exception as error:
        raise BadRun(
            f"{path} is damaged ({type(error).__name__} in its {INDEX}) and cannot be read"
        ) from None
    return index


def check(path: Path, index: Any) -> dict[tuple[str, tuple[int, ...]], Any]:
    """Check that every piece is there, with the right checksum, and holds tensors and plain values
    only. Returns where each piece lies, by tensor name and offset.

    Raises:
        BadRun: otherwise.
    """
    found = {}
    named: Counter[str] = Counter()
    for key, info in index.storage_data.items():
        if Path(info.relative_path).name != info.relative_path:
            raise BadRun(
                f"{path}: {INDEX} names {info.relative_path!r}, which is no file of the folder"
            )
        named[info.relative_path] += info.length
        if named[info.relative_path] > bounded_files.regular(path / info.relative_path):
            raise BadRun(f"{path} is damaged: {INDEX} names more than {info.relative_path} holds")
        with part(path, info) as stream:
            piece(stream, path / info.relative_path)
        found[key.fqn, tuple(key.offset or ())] = info
    return found


def join(path: Path, name: str, index: Any, pieces: dict[tuple[str, tuple[int, ...]], Any]) -> Any:
    """One tensor from its pieces, or one value."""
    about = index.state_dict_metadata[name]
    if not hasattr(about, "chunks"):
        with part(path, pieces[name, ()]) as stream:
            return piece(stream, path)
    size = torch.Size(about.size)
    if sum(torch.Size(chunk.sizes).numel() for chunk in about.chunks) != size.numel():
        raise BadRun(f"{path} is damaged: the pieces of {name} do not make up its size")
    whole: Tensor | None = None
    for chunk in about.chunks:
        with part(path, pieces[name, tuple(chunk.offsets)]) as stream:
            loaded = piece(stream, path)
        if (
            not isinstance(loaded, Tensor)
            or loaded.shape != torch.Size(chunk.sizes)
            or not loaded.is_contiguous()
        ):
            raise BadRun(f"{path} is damaged: a piece of {name} has not the size that {INDEX} says")
        if whole is None:
            whole = loaded if loaded.shape == size else torch.empty(size, dtype=loaded.dtype)
        if whole is not loaded:
            whole[
                tuple(
                    slice(start, start + length)
                    for start, length in zip(chunk.offsets, chunk.sizes, strict=True)
                )
            ] = loaded
    return whole


def part(path: Path, info: Any) -> BinaryIO:
    """The bytes of one piece."""
    try:
        with (path / info.relative_path).open("rb") as stream:
            stream.seek(info.offset)
            return io.BytesIO(stream.read(info.length))
    except OSError as error:
        raise BadRun(f"cannot read {path / info.relative_path}: {error.strerror}") from None


def piece(stream: BinaryIO, path: Path) -> Any:
    """The content of one piece, its checksum checked."""
    try:
        with zipfile.ZipFile(stream) as archive:
            size = bounds.check_entries(archive, path)
            if archive.testzip() is not None:
                raise zipfile.BadZipFile
            bounds.check_pickles(archive, path)
        stream.seek(0)
        # Explicit: the default can be turned off by an environment variable.
        found = torch.load(stream, map_location="cpu", weights_only=True)
        bounds.check_content(found, path, size)
        return found
    except BadRun:
        raise
    except pickle.UnpicklingError:
        raise BadRun(
            f"{path} holds more than tensors and plain values. It was refused and nothing in it "
            "was run"
        ) from None
    except Exception as error:
        raise BadRun(
            f"{path} is damaged ({type(error).__name__}). Use another checkpoint of the run"
        ) from None


class IndexUnpickler(pickle.Unpickler):
    """Unpickles an index: only the classes and functions in ``HARMLESS`` are allowed."""

    def find_class(self, module: str, name: str) -> Any:
        if name not in HARMLESS.get(module, ()):
            raise BadRun(
                f"{INDEX} names {module}.{name}, which no checkpoint does. It was refused and "
                "nothing in it was run"
            )
        return super().find_class(module, name)
