"""Checkpoint files: which one a run means, and how one from a stranger is read safely."""

import json
import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tfzoo.base.files import check_regular
from tfzoo.errors import BadRun, listing
from tfzoo.runs import pretrained
from tfzoo.runs.folder import check_exists, similar_runs

FOLDER = "checkpoints"
LAST = "last.ckpt"
FORMAT = 2
"""The version of the layout of the entry ``tfzoo`` in a checkpoint."""
ENTRY: Mapping[str, type] = {"task": str, "recipe": dict, "tokenizer": dict, "batches": int}
"""What the entry ``tfzoo`` of a checkpoint must hold, with the type of each value."""


def find(path: Path) -> Path:
    """The checkpoint that a path means: the file or exported folder itself, or the best one of a
    run's folder, or the last if there is no best.
    """
    if path.name == pretrained.WEIGHTS:
        path = path.parent
    check_exists(path)
    if is_checkpoint(path):
        return path
    inside = path / FOLDER if (path / FOLDER).is_dir() else path
    files = sorted(filter(is_checkpoint, inside.glob("*.ckpt")))
    if not files:
        if (path / "cells.json").is_file():
            runs = sorted(str(one.parent) for one in path.glob("*/*/config.yaml"))
            raise BadRun(
                f"{path} is a sweep: tfzoo report {path}, or name one of its runs: "
                f"{', '.join(runs[:4])}{', ...' * (len(runs) > 4)}"
            )
        others = similar_runs(path / "x")
        none = f"{path} holds no checkpoint of tfzoo or transformers"
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
    that cannot be used. It is ``last.ckpt``, or the one of the others that was trained on the most
    batches.
    """
    files = sorted((folder / FOLDER).glob("*.ckpt"), key=lambda file: file.name != LAST)
    unusable: list[str] = []
    found: list[tuple[int, Path]] = []
    if files and files[0].name != LAST:
        unusable.append(f"{folder / FOLDER / LAST} is missing")
    for file in files:
        try:
            checkpoint = read(file)
            if why := unfit(checkpoint):
                raise BadRun(f"{file} {why}")
        except BadRun as error:
            unusable.append(str(error))
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
    if not checkpoint.get("optimizer_states"):
        return "holds weights only"
    for key in ("callbacks", "loops"):
        if not isinstance(checkpoint.get(key), Mapping):
            return f"is damaged: {key} is missing, or of another type"
    state = checkpoint["callbacks"].get("LastCheckpoint")
    within = isinstance(state, Mapping) and state.get("within_step")
    return "was written in the middle of a step" if within else ""


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
        BadRun: damaged, cut short, holding code, not of tfzoo, or of another version of it.
    """
    path = Path(path)
    checkpoint = pretrained.read(path) if pretrained.is_pretrained(path) else load(path)
    kept = checkpoint.get("tfzoo") if isinstance(checkpoint, dict) else None
    if not isinstance(kept, dict):
        raise BadRun(f"{path} is no checkpoint of tfzoo: it has no key 'tfzoo'")
    if not isinstance(kept.get("format"), int) or kept["format"] != FORMAT:
        raise BadRun(
            f"{path} has format {kept.get('format')!r}, this tfzoo reads {FORMAT}: it was "
            "written by another version"
        )
    wrong = [key for key, kind in ENTRY.items() if not isinstance(kept.get(key), kind)]
    state = checkpoint.get("state_dict")
    if not isinstance(state, Mapping) or not all(isinstance(one, Tensor) for one in state.values()):
        wrong.append("state_dict")
    try:
        json.dumps(kept)
    except (TypeError, ValueError, RecursionError):
        wrong.append("tfzoo")
    if wrong:
        raise BadRun(f"{path} is damaged: {listing(wrong)} is missing, or of another type")
    return dict(checkpoint)


def kind_of(x: Tensor) -> tuple[object, ...]:
    """What a stored tensor has in common with that of the model."""
    return x.shape, x.layout, x.is_floating_point()


def check_fit(model: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Check that the stored parameters are those of a task's model, which was built on ``meta``."""
    for name, wanted in model.state_dict(prefix="model.").items():
        stored = state.get(name)
        if stored is None or kind_of(stored) != kind_of(wanted):
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
    """Find what ``torch.load`` accepts: a flipped bit, a truncated file, and compression, which a
    mapped file cannot have.
    """
    check_regular(path)
    try:
        with zipfile.ZipFile(path) as archive:
            compressed = (entry.filename for entry in archive.infolist() if entry.compress_type)
            broken = archive.testzip() or next(compressed, "")
    except Exception as error:  # a damaged header can make zipfile fail in any way
        why = f"is no checkpoint, or is cut short or damaged ({type(error).__name__})"
        raise BadRun(f"{path} {why}. Use another checkpoint") from None
    if broken:
        raise BadRun(
            f"{path} is damaged: {broken} is not as it was written. Use another checkpoint"
        )
