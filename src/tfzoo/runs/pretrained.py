"""A trained model as a folder, to be shared: weights in safetensors, all else in JSON; and as a
repository of the Hugging Face Hub, which holds the same files. It is data: no code in it is fetched
or run.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from tfzoo.base import cache
from tfzoo.base.files import check_regular, json_of, new_folder, object_of, text_of
from tfzoo.base.loading import require
from tfzoo.base.values import leaves, map_leaves
from tfzoo.errors import BadRun, TfzooError
from tfzoo.runs.folder import ADDRESS, SCHEME

WEIGHTS = "model.safetensors"
CONFIG = "config.json"
INDEX = f"{WEIGHTS}.index.json"
"""Which file holds each tensor of a large model of ``transformers``."""
BESIDE = (
    *("generation_config.json", "special_tokens_map.json"),
    *("source.spm", "target.spm", "vocab.json", "target_vocab.json", "spiece.model"),
)
"""Other files of ``transformers`` that are read where they are there."""
CARD = "README.md"
FILES = [WEIGHTS, CONFIG, CARD, "tokenizer*.json", INDEX, "model-*.safetensors", *BESIDE]
"""What is fetched of a repository: an exported folder, or what ``save_pretrained`` of transformers
writes.
"""
TOKENIZER = re.compile(r"tokenizer(_\d+)?\.json")
"""The names of files with the text of a tokenizer."""
UNUSED = "beside."
"""So begin the names of tensors that the model has no place for, and another one may have."""
LONG = 200
"""A text of a tokenizer that has more characters becomes a file."""


def is_pretrained(path: Path) -> bool:
    """Whether a path is a folder that :func:`write` has written."""
    return (path / WEIGHTS).is_file() and (path / CONFIG).is_file()


def is_published(folder: Path) -> bool:
    """Whether a folder has a ``config.json`` of ``transformers``."""
    return isinstance(object_of(folder / CONFIG).get("model_type"), str)


def write(
    folder: Path,
    state: Mapping[str, Tensor],
    kept: Mapping[str, Any],
    card: str = "",
    beside: Mapping[str, Tensor] = MappingProxyType({}),
) -> None:
    """Write a folder with the files above.

    Paths of this machine in the recipe, such as ``data.root``, are reduced to their last part.

    Args:
        folder: a new or an empty folder.
        state: the parameters. Of tensors that share memory one is stored.
        kept: the entry ``tfzoo`` of a checkpoint.
        card: the text of README.md.
        beside: tensors that the model has no place for, and another one may have.

    Raises:
        TfzooError: the folder exists and is not empty, or cannot be written.
    """
    require("safetensors", "export")
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    state = {**state, **{f"{UNUSED}{key}": one for key, one in beside.items()}}
    own, aliases = unshared(state)
    tokenizer, files = split_texts(kept["tokenizer"])
    with new_folder(folder) as place:
        try:
            save_file(own, place / WEIGHTS, metadata={"format": "pt", **aliases})
        except SafetensorError as error:  # a full disk
            raise TfzooError(f"cannot write {folder}: {error}") from None
        config = {**kept, "recipe": without_folders(kept["recipe"]), "tokenizer": tokenizer}
        config["sha256"] = cache.checksum(place / WEIGHTS)
        files |= {CONFIG: json.dumps(config, indent=2, ensure_ascii=False) + "\n", CARD: card}
        for name, text in files.items():
            (place / name).write_text(text, "utf-8", newline="\n")


def read(folder: Path) -> dict[str, Any]:
    """A folder in the form of a checkpoint: ``state_dict``, ``beside`` and ``tfzoo``."""
    require("safetensors", "export")
    from safetensors import SafetensorError, safe_open

    path = folder / WEIGHTS
    try:
        config = entry_of(folder)
        with safe_open(path, "pt") as file:
            names, metadata = list(file.keys()), file.metadata() or {}
        state = {name: tensor_of(path, name) for name in names}
        state |= {alias: state[own] for alias, own in metadata.items() if own in state}
    except (ValueError, RecursionError, SafetensorError, OSError) as error:
        raise BadRun(f"{folder} is damaged ({type(error).__name__}) and cannot be read") from None
    beside = {
        key.removeprefix(UNUSED): state.pop(key) for key in [*state] if key.startswith(UNUSED)
    }
    return {"state_dict": state, "beside": beside, "tfzoo": config}


def entry_of(folder: Path) -> dict[str, Any]:
    """The entry ``tfzoo`` of a checkpoint, of a folder whose weights have the right checksum."""
    path = folder / WEIGHTS
    check_regular(path)
    config = json_of(folder / CONFIG)
    if not isinstance(config, dict):
        raise BadRun(f"{folder / CONFIG} is no configuration of tfzoo")
    if config.pop("sha256", None) != cache.checksum(path):
        raise BadRun(f"{path} is damaged, or belongs to another {CONFIG}: its sum is wrong")
    config["tokenizer"] = join_texts(config.get("tokenizer"), folder)
    return config


def tensor_of(path: Path, name: str) -> Tensor:
    """A tensor of a file of safetensors, in memory of its own. The file is opened for it alone:
    while one is mapped, all that was read of it stays in memory, and a process ends whose mapped
    file is cut short.
    """
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        value: Tensor = file.get_tensor(name).clone()
    return value


def unshared(state: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors without those that are the same as an earlier one, and their names by these."""
    first: dict[tuple[Any, ...], str] = {}
    own, aliases = {}, {}
    for name, value in state.items():
        place = (value.data_ptr(), value.shape, value.stride(), value.dtype)
        known = first.setdefault(place, name) if value.numel() else name
        if known == name:  # safetensors refuses parts of a storage
            own[name] = value.detach().cpu().clone(memory_format=torch.contiguous_format)
        else:
            aliases[name] = known
    return own, aliases


def split_texts(tokenizer: Any) -> tuple[Any, dict[str, str]]:
    """A tokenizer's state with each long text in it replaced by ``{"file": name}``, and these texts
    by name.
    """
    values = [value for _, value in leaves(tokenizer)]
    texts = dict.fromkeys(text for text in values if isinstance(text, str) and len(text) > LONG)
    names = {
        text: "tokenizer.json" if len(texts) == 1 else f"tokenizer_{number}.json"
        for number, text in enumerate(texts, 1)
    }

    def replaced(value: Any) -> Any:
        return {"file": names[value]} if isinstance(value, str) and value in names else value

    return map_leaves(replaced, tokenizer), {name: text for text, name in names.items()}


def join_texts(tokenizer: Any, folder: Path) -> Any:
    """A tokenizer's state from what :func:`split_texts` made of it and wrote to a folder."""
    if isinstance(tokenizer, dict):
        name = tokenizer.get("file")
        if len(tokenizer) == 1 and isinstance(name, str):
            if not TOKENIZER.fullmatch(name):
                raise BadRun(f"{folder / CONFIG} names the file {name!r}, which is no tokenizer's")
            return text_of(folder / name)
        return {key: join_texts(value, folder) for key, value in tokenizer.items()}
    return (
        [join_texts(one, folder) for one in tokenizer] if isinstance(tokenizer, list) else tokenizer
    )


def without_folders(recipe: Any) -> Any:
    """A recipe whose absolute paths are reduced to their last part."""

    def last(value: Any) -> Any:
        for kind in (PurePosixPath, PureWindowsPath):
            if isinstance(value, str) and kind(value).is_absolute():
                return kind(value).name
        return value

    return map_leaves(last, recipe)


def place_of(name: str | Path) -> Path:
    """Where a run or a folder is on this machine; ``hf://name/repository`` is downloaded."""
    return download(str(name)) if str(name).startswith(SCHEME) else Path(name).expanduser()


def download(address: str) -> Path:
    """The folder of the files of ``hf://name/repository[@revision]``, kept in the cache."""
    found = ADDRESS.fullmatch(address)
    if found is None:
        raise BadRun(f"{address} is no address of the form hf://name/repository[@revision]")
    from huggingface_hub import snapshot_download

    try:
        shelf = cache.folder() / cache.SHELF / "models"
        return Path(
            snapshot_download(found[1], revision=found[2], cache_dir=shelf, allow_patterns=FILES)
        )
    except Exception as error:  # its own, the system's, or of the library that it connects with
        first = str(error).strip().partition("\n")[0]
        raise BadRun(f"cannot load {address}: {first or type(error).__name__}") from None
