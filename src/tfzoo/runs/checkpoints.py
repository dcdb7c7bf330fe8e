"""Checkpoint files: which one a run means, and how one from a stranger is read safely."""

from __future__ import annotations

import json
import pickle
import zipfile
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tfzoo.base import bounded_files
from tfzoo.errors import BadRun, listing
from tfzoo.runs import hub, pretrained
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
TYPES: dict[str, type] = {
    **{"optimizer_states": list, "lr_schedulers": list, "loops": dict, "callbacks": dict},
    **{"epoch": int, "global_step": int},
}
"""What Lightning keeps in a checkpoint beside, with the type of each value."""
TENSORS = ("state_dict", "beside")
"""The keys of a checkpoint that hold tensors by name."""
DTYPES = {
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
}
"""The types of these tensors."""


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
    """Whether a path is a file, or the folder of an exported model or of a published one."""
    return path.is_file() or pretrained.is_pretrained(path) or pretrained.is_published(path)


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
            why = unfit(checkpoint)
        except BadRun as error:
            unusable.append(str(error))
            continue
        if why:
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
    if "optimizer_states" not in checkpoint:
        return "holds weights only"
    wrong = [
        key for key, kind in TYPES.items() if not isinstance(checkpoint.get(key, kind()), kind)
    ]
    try:
        name = not_finite(checkpoint)
    except (RuntimeError, RecursionError):  # of tensors without numbers, or a list within itself
        wrong.append("optimizer_states")
    if wrong:
        return f"is damaged: {listing(wrong)} is of another type"
    if name:
        return f"holds numbers that are not finite ({name})"
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


def numbers(values: Any, name: str = "") -> Iterator[tuple[str, Tensor]]:
    """All floating-point numbers and tensors in nested values, each with its dotted name."""
    if isinstance(values, float):
        yield name, torch.tensor(values)
    elif isinstance(values, Tensor) and (values.is_floating_point() or values.is_complex()):
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
    if pretrained.is_published(path):
        checkpoint = import_module(PUBLISHED).read(path)
    else:
        checkpoint = pretrained.read(path) if pretrained.is_pretrained(path) else load(path)
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
    if wrong or not is_json(kept):
        raise BadRun(
            f"{path} is damaged: its contents do not match, {listing(wrong or ['tfzoo'])} is of "
            "another type"
        )
    for key in TENSORS:
        check_tensors(checkpoint.get(key, {}), path)
    return dict(checkpoint)


def is_json(value: Any) -> bool:
    """Whether a value is plain: what JSON can hold."""
    try:
        json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def check_tensors(state: Mapping[Any, Any], path: Path) -> None:
    """Check that each value is a tensor that a model of tfzoo can have.

    Raises:
        BadRun: naming it.
    """
    for name, value in state.items():
        if not isinstance(name, str) or not isinstance(value, Tensor):
            raise BadRun(f"{path} is damaged: its weight {name!r} is no tensor")
        if value.dtype not in DTYPES or value.layout is not torch.strided or value.is_meta:
            raise BadRun(
                f"{path} holds {name!r}, a tensor of a kind that tfzoo does not write "
                f"({value.dtype}, {value.layout}, {value.device}). It was refused"
            )


def check_fit(model: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Check that the stored parameters are those of a task's model, which was built on the device
    ``meta``.

    Raises:
        BadRun: a shape differs, or parameters are missing.
    """
    for name, wanted in model.state_dict(prefix="model.").items():
        stored = state.get(name)
        if stored is None or stored.shape != wanted.shape:
            has = "it is missing" if stored is None else f"stored is {list(stored.shape)}"
            raise BadRun(
                f"the checkpoint's parameters do not fit its own recipe and tokenizer: {name} "
                f"would be {list(wanted.shape)}, {has}"
            )


def load(path: Path) -> Any:
    """Load one file, whose checksums are checked."""
    check_sums(path)
    try:
        # weights_only is explicit, because an environment variable can turn the default off. mmap:
        # from a mapped file no more can be read than the file has, whatever sizes it states.
        return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except pickle.UnpicklingError:
        raise BadRun(
            f"{path} holds more than tensors and plain values. It was refused and nothing in it "
            "was run"
        ) from None
    except Exception as error:
        raise BadRun(f"{path} is damaged ({type(error).__name__}) and cannot be read") from None


def check_sums(path: Path) -> None:
    """Find a flipped bit or a truncated file, which ``torch.load`` alone accepts."""
    bounded_files.regular(path)
    try:
        with path.open("rb") as stream:
            start = stream.read(4)
        with zipfile.ZipFile(path) as archive:
            broken = archive.testzip()
            stored = all(not entry.compress_type for entry in archive.infolist())
    except OSError as error:
        raise BadRun(f"cannot read {path}: {error.strerror}") from None
    except Exception as error:  # a damaged header can make zipfile fail in any way
        if start.startswith(b"PK"):
            why = f"is cut short or damaged ({type(error).__name__}). Use another checkpoint"
        elif start.startswith(b"\x80"):
            why = "is a bare pickle, which can hold code. It was refused and nothing in it was run"
        else:
            why = "is no checkpoint" if start else "is no checkpoint: it is empty"
        raise BadRun(f"{path} {why}") from None
    if broken is not None or not stored:  # a mapped file is read as it is
        why = "it is compressed" if broken is None else f"the sum of {broken} is wrong"
        raise BadRun(f"{path} is damaged: {why}. Use another checkpoint of the run")
