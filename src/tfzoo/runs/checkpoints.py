"""Checkpoint files: which one a run means, and how one from a stranger is read safely."""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from tfzoo.base import bounded_files
from tfzoo.errors import BadRun, listing
from tfzoo.runs import bounds, hub, pretrained, sharded_files
from tfzoo.runs.folder import SCHEME, check_exists, similar_runs

FOLDER = "checkpoints"
LAST = "last.ckpt"
PUBLISHED = "tfzoo.learning.published"
"""What reads folders of ``transformers``: it stands above, as it knows models and tokenizers."""
FORMAT = 2
"""The version of the layout of the entry ``tfzoo`` in a checkpoint."""
ENTRY_TYPES: dict[str, type] = {
    **{"format": int, "task": str, "recipe": dict, "tokenizer": dict, "batches": int},
    **{"skipped": int, "text": str, "foreign": str, "results": dict, "began": dict},
    **{"headless": str, "anew": list},
}
"""What the key ``tfzoo`` of a checkpoint holds, with the type of each value."""
TENSORS = ("state_dict", "beside")
"""The keys of a checkpoint that hold tensors by name."""


def find(run: str | Path) -> Path:
    """The checkpoint that RUN means: the file or exported folder itself, the best one of a run's
    folder or the last if there is no best, or the copy of ``hf://name/repository``, which is
    downloaded.

    Raises:
        BadRun: there is none; the message names runs that are there.
    """
    path = hub.download(str(run)) if str(run).startswith(SCHEME) else Path(run).expanduser()
    if path.name == pretrained.WEIGHTS:
        path = path.parent
    if is_checkpoint(path):
        return path
    inside = path / FOLDER if (path / FOLDER).is_dir() else path
    files = sorted(filter(is_checkpoint, inside.glob("*.ckpt")))
    if not files:
        check_exists(path)
        others = ", ".join(similar_runs(path / "x"))
        none = f"{run} holds no checkpoint: its training has written none"
        raise BadRun(f"{none}. Runs: {others}" if others else none)
    last = [file for file in files if file.name == LAST]
    best = [file for file in files if file.name != LAST]
    if len(best) > 1:
        return named_best(best, last) or max(best, key=lambda file: file.stat().st_mtime)
    return (best or last)[0]


def is_checkpoint(path: Path) -> bool:
    """Whether a path is a file, or the folder of a sharded checkpoint, of an exported model or of a
    model of ``transformers``.
    """
    folders = (sharded_files.is_sharded, pretrained.is_pretrained, pretrained.is_published)
    return path.is_file() or any(holds(path) for holds in folders)


def newest(folder: Path) -> tuple[Path | None, list[str]]:
    """The checkpoint that a run goes on from, None where it has none, and a message for each one
    that cannot be used.

    It is ``last.ckpt``. Where that cannot be used, it is the one of the others that was trained on
    the most batches.

    Raises:
        BadRun: there are checkpoints, but none to go on from.
    """
    files = sorted((folder / FOLDER).glob("*.ckpt"), key=lambda file: file.name != LAST)
    unusable: list[str] = []
    found: list[tuple[int, Path]] = []
    if files and files[0].name != LAST:
        unusable.append(f"{folder / FOLDER / LAST} is missing")
    for file in files:
        try:
            checkpoint = read(file)
        except BadRun as error:
            unusable.append(str(error))
            continue
        if why := unfit(checkpoint):
            unusable.append(f"{file} {why}")
            continue
        found.append((checkpoint["tfzoo"]["batches"], file))
        if file.name == LAST:
            break
    if files and not found:
        raise BadRun(
            f"{folder} holds checkpoints, but none to go on from: {'; '.join(unusable[:3])}"
        )
    return (max(found)[1], unusable) if found else (None, [])


def unfit(checkpoint: Mapping[str, Any]) -> str:
    """Why training cannot go on from a checkpoint; ``""`` where it can."""
    if name := not_finite(checkpoint):
        return f"holds numbers that are not finite ({name})"
    if "optimizer_states" not in checkpoint:
        return "holds weights only"
    callbacks = checkpoint.get("callbacks")
    state = callbacks.get("LastCheckpoint") if isinstance(callbacks, Mapping) else None
    within = isinstance(state, Mapping) and state.get("within_step")
    return "was written in the middle of a step" if within else ""


def not_finite(checkpoint: Mapping[str, Any]) -> str:
    """The name of a parameter, buffer or optimiser state that holds a NaN or infinity; ``""`` where
    none does.
    """
    found = dict(numbers({key: checkpoint.get(key) for key in ("state_dict", "optimizer_states")}))
    all_finite = [value.isfinite().all() for value in found.values()]
    if not all_finite or bool(
        torch.stack([one.to(all_finite[0].device) for one in all_finite]).all()
    ):  # waits for the device once
        return ""
    return next(name for name, one in zip(found, all_finite, strict=True) if not one)


def numbers(values: Any, name: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """All floating-point and complex tensors in nested values, each with its dotted name."""
    if isinstance(values, torch.Tensor) and (values.is_floating_point() or values.is_complex()):
        yield name, values
    elif isinstance(values, Mapping | list | tuple):
        pairs = values.items() if isinstance(values, Mapping) else enumerate(values)
        for key, value in pairs:
            yield from numbers(value, f"{name}.{key}" if name else str(key))


def named_best(best: list[Path], last: list[Path]) -> Path | None:
    """The one of several that the last checkpoint names as the best."""
    if not last:
        return None
    states = read(last[0]).get("callbacks", {}).values()
    names = {
        Path(state["best_model_path"]).name
        for state in states
        if isinstance(state, Mapping) and state.get("best_model_path")
    }
    return next((file for file in best if file.name in names), None)


def read(path: str | Path) -> dict[str, Any]:
    """Read a checkpoint or an exported folder to the CPU. Checksums are checked, and no code in it
    can be executed.

    Raises:
        BadRun: damaged, cut short, holding code, not of tfzoo, or of a newer tfzoo.
    """
    path = Path(path)
    checkpoint = reader_of(path)(path) if path.is_dir() else load(path)
    kept = checkpoint.get("tfzoo") if isinstance(checkpoint, dict) else None
    if not isinstance(kept, dict):
        raise BadRun(f"{path} is no checkpoint of tfzoo: it has no key 'tfzoo'")
    if not isinstance(kept.get("format"), int) or kept["format"] != FORMAT:
        raise BadRun(
            f"{path} has format {kept.get('format')!r}, this tfzoo reads {FORMAT}: it was "
            "written by another version"
        )
    missing = [key for key in ("task", "recipe", "tokenizer", "batches") if key not in kept]
    if missing or "state_dict" not in checkpoint or not isinstance(kept["recipe"], dict):
        raise BadRun(
            f"{path} is incomplete: it lacks {', '.join(missing) or 'state_dict or recipe'}"
        )
    wrong = [
        key for key, kind in ENTRY_TYPES.items() if not isinstance(kept.get(key, kind()), kind)
    ]
    wrong += [key for key in TENSORS if not isinstance(checkpoint.get(key, {}), Mapping)]
    if wrong:
        raise BadRun(
            f"{path} is damaged: its contents do not match, {listing(wrong)} is of another type"
        )
    return dict(checkpoint)


def reader_of(folder: Path) -> Callable[[Path], dict[str, Any]]:
    """What reads a folder."""
    if pretrained.is_published(folder):
        read: Callable[[Path], dict[str, Any]] = import_module(PUBLISHED).read
        return read
    return pretrained.read if pretrained.is_pretrained(folder) else sharded_files.read


def load(path: Path) -> Any:
    """Load one file; its checksums and sizes are checked."""
    size = check_sums(path)
    try:
        # weights_only is explicit, because an environment variable can turn the default off. mmap:
        # torch trusts the sizes of tensors that a file states and would read memory beyond it;
        # from a mapped file it can read no more than the file.
        checkpoint: Any = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except pickle.UnpicklingError as error:
        raise BadRun(
            f"{path} holds more than tensors and plain values{named(error)}. It was refused and "
            "nothing in it was run"
        ) from None
    except Exception as error:
        raise BadRun(f"{path} is damaged ({type(error).__name__}) and cannot be read") from None
    bounds.check_content(checkpoint, path, size)
    return checkpoint


def check_sums(path: Path) -> int:
    """Find a flipped bit or a truncated file, which ``torch.load`` alone accepts. Returns the
    number of bytes of the tensors in it.
    """
    bounded_files.regular(path)
    try:
        with path.open("rb") as stream:
            start = stream.read(4)
        with bounds.Archive(path) as file, zipfile.ZipFile(file) as archive:
            file.opened = True
            size = bounds.check_entries(archive, path)
            broken = archive.testzip()
            if broken is None:
                bounds.check_pickles(archive, path)
    except OSError as error:
        raise BadRun(f"cannot read {path}: {error.strerror}") from None
    except BadRun:
        raise
    except zipfile.BadZipFile:
        if start.startswith(b"PK"):
            raise BadRun(
                f"{path} is cut short or damaged: its end is missing. Use another checkpoint of "
                "the run"
            ) from None
        if start.startswith(b"\x80"):
            raise BadRun(
                f"{path} is a bare pickle, which can hold code. It was refused and nothing in it "
                "was run"
            ) from None
        raise BadRun(f"{path} is no checkpoint" + (": it is empty" if not start else "")) from None
    except Exception as error:  # a damaged header can make zipfile fail in any way
        raise BadRun(
            f"{path} is damaged ({type(error).__name__}). Use another checkpoint of the run"
        ) from None
    if broken is not None:
        raise BadRun(
            f"{path} is damaged: the sum of {broken} is wrong. Use another checkpoint of the run"
        )
    return size


def named(error: Exception) -> str:
    """The name that a refused pickle would call, as `` (os.system)``, if the error states it."""
    words = [word.strip("`'\".,") for word in str(error).split()]
    names = [
        words[i + 1]
        for i in range(len(words) - 1)
        if words[i] in ("GLOBAL", "global:", "class", "type")
    ]
    return f" ({names[0]})" if names else ""
