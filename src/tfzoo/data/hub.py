"""Data sets of Hugging Face's library ``datasets``: those of its hub, by name, which the library
downloads into the cache, and folders that its ``save_to_disk`` wrote. Since version 4 it runs no
code of a data set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tfzoo.base import cache
from tfzoo.errors import BadData, BadOption, UnknownName


def split_names(
    found: Mapping[str, Any], name: str, train: Any, val: Any, tests: Mapping[str, Any] | None
) -> dict[str, str]:
    """The names that a data set has for tfzoo's splits: train, val if there is one, and the test
    sets. Splits that are not given are looked up under their usual names.

    A split that is given as a test set is never used for ``val``: no checkpoint may be selected on
    a test set.

    Raises:
        BadOption: a split is given by something else than a name.
        UnknownName: there is no such split.
    """
    if not all(isinstance(split, str | None) for split in (train, val, *(tests or {}).values())):
        raise BadOption(f"{name} has splits; data.train, data.val and data.test name them")
    wanted: dict[str, str | None] = {
        "train": train or "train",
        "val": val or first(found, ("validation", "val", "dev"), tests or {}),
    }
    wanted |= tests if tests is not None else {"test": first(found, ("test",), wanted)}
    names = {ours: theirs for ours, theirs in wanted.items() if theirs}
    for split in names.values():
        if split not in found:
            raise UnknownName(f"split of {name}", split, found)
    return names


def is_saved(folder: Path) -> bool:
    """Whether ``save_to_disk`` of the library ``datasets`` wrote this folder."""
    single = ("state.json", "dataset_info.json")
    return (folder / "dataset_dict.json").is_file() or all(
        (folder / name).is_file() for name in single
    )


def saved(folder: Path) -> Mapping[str, Any]:
    """The splits in a folder that ``save_to_disk`` wrote; a single data set is training's."""
    from datasets import DatasetDict, load_from_disk

    try:
        found = load_from_disk(str(folder))
    except Exception as error:  # of many classes, from several libraries
        why = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:160]}"
        raise BadData(f"cannot load the data set in {folder} ({why}); save it again") from None
    return found if isinstance(found, DatasetDict) else {"train": found}


def fetched(name: str) -> Mapping[str, Any]:
    """All splits of a data set; ``owner/name:config`` selects one of several configurations.

    Raises:
        BadOption: the name is a path.
        BadData: the data set cannot be downloaded.
    """
    from datasets import load_dataset

    if Path(name).expanduser().exists():
        raise BadOption(
            f"data.name {name!r} is a path; data.name is a data set of Hugging Face's hub, "
            "data.root a folder"
        )
    repository, _, config = name.partition(":")
    folder = cache.folder() / cache.SHELF / "hub"
    try:
        found: Mapping[str, Any] = load_dataset(repository, config or None, cache_dir=str(folder))
    except Exception as error:  # of many classes, from several libraries
        why = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:160]}"
        raise BadData(
            f"cannot load the data set {name!r} ({why}). Check the name (owner/name, or "
            "owner/name:config) and that huggingface.co can be reached; without a network, give "
            "local files: data.root"
        ) from None
    return found


def first(found: Mapping[str, Any], names: Sequence[str], taken: Mapping[str, Any]) -> str | None:
    """The first of these names that the data set has and that is not taken."""
    return next((name for name in names if name in found and name not in taken.values()), None)
