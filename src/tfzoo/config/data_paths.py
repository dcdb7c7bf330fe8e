"""Paths in the section ``data``: which values are paths, and from where relative ones start."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfzoo.data.hub import is_saved
from tfzoo.data.lines import is_folder
from tfzoo.data.remote import is_address

SPLITS = ("train", "val", "test")
"""The keys of the section ``data`` whose values are paths, unless :func:`splits_have_names`."""


def splits_have_names(data: Mapping[str, Any]) -> bool:
    """Whether the values of :data:`SPLITS` are names of splits and not paths: in a data set of the
    Hugging Face hub, or in a folder that its ``save_to_disk`` wrote. ``data`` is the section.
    """
    root, dataset = data.get("root"), data.get("dataset")
    folder = root or (dataset if is_folder(dataset) else None)
    saved = isinstance(folder, str) and is_saved(Path(folder).expanduser())
    return saved or bool(data.get("name"))


def absolute_path(value: Any) -> Any:
    """Make a path, or each path of a mapping or list, absolute. Relative paths start at the working
    directory; addresses stay as they are.
    """
    if isinstance(value, Mapping):
        return {name: absolute_path(path) for name, path in value.items()}
    if isinstance(value, list):
        return [absolute_path(path) for path in value]
    if not isinstance(value, str) or is_address(value):
        return value
    return str(Path(value).expanduser().resolve())


def use_folder_as_root(data: dict[str, Any], origins: dict[str, str]) -> None:
    """Move the value of ``data.dataset``, and its origin, to ``data.root`` if it is a folder."""
    if is_folder(data.get("dataset")) and not data.get("root"):
        data["root"], data["dataset"] = data["dataset"], None
        origins["data.root"] = origins["data.dataset"]


def absolute_data_paths(data: Mapping[str, Any]) -> dict[str, Any]:
    """Make the paths in the section ``data`` absolute.

    Paths of splits are left relative to ``data.root`` if there is one. With ``data.name``, a data
    set of the Hugging Face hub, splits are names and not paths.
    """
    keys = ("root",) if data.get("root") else () if data.get("name") else SPLITS
    return {key: absolute_path(value) if key in keys else value for key, value in data.items()}
