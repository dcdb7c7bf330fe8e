"""Trained models on the Hugging Face Hub, by ``huggingface_hub``. A repository is data: the files
of an exported folder (:mod:`tfzoo.runs.pretrained`). No code in it is fetched or run.
"""

from __future__ import annotations

from pathlib import Path

from tfzoo.base import cache
from tfzoo.errors import BadRun, TfzooError
from tfzoo.runs import pretrained
from tfzoo.runs.folder import ADDRESS, SCHEME

WRITTEN = [pretrained.WEIGHTS, pretrained.CONFIG, pretrained.CARD, "tokenizer*.json"]
"""The files of an exported folder."""
FILES = [*WRITTEN, pretrained.INDEX, "model-*.safetensors", *pretrained.BESIDE]
"""What is fetched of a repository: those, or what ``save_pretrained`` of transformers writes."""


def place_of(name: str | Path) -> Path:
    """Where a run or a folder is on this machine; ``hf://name/repository`` is downloaded."""
    return download(str(name)) if str(name).startswith(SCHEME) else Path(name).expanduser()


def download(address: str) -> Path:
    """The folder of the files of ``hf://name/repository`` or ``hf://name/repository@revision``,
    which are kept in the cache.

    Raises:
        BadRun: another form of address, or no such repository.
    """
    found = ADDRESS.fullmatch(address)
    if found is None:
        raise BadRun(f"{address} is no address of the form hf://name/repository[@revision]")
    from huggingface_hub import snapshot_download

    try:
        return Path(
            snapshot_download(
                found[1],
                revision=found[2],
                cache_dir=cache.folder() / cache.SHELF / "models",
                allow_patterns=FILES,
            )
        )
    except Exception as error:  # its own, the system's, or of the library that it connects with
        raise BadRun(f"cannot load {address}: {reason(error)}") from None


def upload(folder: Path, repository: str, *, private: bool | None, message: str) -> str:
    """Upload the files of an exported folder to a repository, which is created if there is none,
    and return the address of the commit.

    Raises:
        TfzooError: the Hub refuses it, or cannot be reached.
    """
    from huggingface_hub import HfApi

    api = HfApi(library_name="tfzoo")
    try:
        api.create_repo(repository, private=private, exist_ok=True)
        return str(
            api.upload_folder(
                repo_id=repository,
                folder_path=folder,
                commit_message=message,
                allow_patterns=WRITTEN,
            ).commit_url
        )
    except Exception as error:  # as above
        raise TfzooError(f"cannot push to {repository}: {reason(error)}") from None


def reason(error: Exception) -> str:
    """The first line of an error's message."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
