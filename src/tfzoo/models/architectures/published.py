"""A folder that ``save_pretrained`` of Hugging Face's ``transformers`` wrote: ``config.json`` and
weights in safetensors, in one file or in several with an index. It is data: pickles are not read,
and code that it asks for is not run.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor

from tfzoo.base import memory
from tfzoo.base.files import check_regular, json_of
from tfzoo.base.loading import require
from tfzoo.errors import BadOption, BadRun, TfzooError
from tfzoo.models.architectures import architecture
from tfzoo.models.architectures.config import Model, Published, read_config
from tfzoo.models.architectures.weights import Tensors, converted
from tfzoo.models.initialise import fill
from tfzoo.runs.pretrained import CONFIG, INDEX, WEIGHTS, tensor_of

SHARD = re.compile(r"[\w-][\w.-]*\.safetensors")
PICKLES = ("pytorch_model*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.h5", "*.msgpack")
"""Weights in other formats, which can hold code or are not PyTorch's."""


def pretrained_model(folder: Path) -> Model:
    """The model of tfzoo that computes what the one in a folder does, in evaluation mode and with
    the parameters' own dtype.
    """
    with located(folder):
        published = read_config(config_of(folder))
    if published.bare:
        raise BadRun(without_head(folder, published))
    model, state, _ = read_weights(folder, published)
    fill(model, state)
    return model.eval()


def config_of(folder: Path) -> dict[str, Any]:
    """The content of ``config.json``."""
    found = json_of(folder / CONFIG)
    if not isinstance(found, dict):
        raise BadRun(f"{folder / CONFIG} is no configuration of a model")
    return found


@contextmanager
def located(folder: Path) -> Iterator[None]:
    """Context in which errors of tfzoo become a :class:`BadRun` that names the folder."""
    try:
        yield
    except BadRun:
        raise
    except TfzooError as error:
        raise BadRun(f"cannot import {folder}: {error}") from None


def without_head(folder: Path, published: Published) -> str:
    """Why a model without a head applies to no text."""
    return (
        f"{folder} holds {published.bare}, a model without a head: train one with tfzoo fit RECIPE "
        f"--from {folder}"
    )


def read_weights(
    folder: Path, published: Published
) -> tuple[Model, dict[str, Tensor], dict[str, Tensor]]:
    """The model that ``config.json`` describes, without memory, and its parameters, each read once;
    those of a head only where there is one. Then what the file holds beside them for a classifier,
    such as BERT's pooler, by the names there.
    """
    bare = bool(published.bare)
    with located(folder):
        model: Any = memory.check_model(published.model, published.options, BadRun)
        tensors = Tensors(published.architecture, *tensors_of(folder))
        state = converted(published.architecture, model, tensors, bare)
        beside = of_classifier(published.architecture, tensors)
        tensors.check_all_read()
    for name, wanted in model.state_dict().items():
        if name in state and state[name].shape != wanted.shape:
            raise BadRun(
                f"cannot import {folder}: by config.json {name} would be {list(wanted.shape)}, and "
                f"its weights are {list(state[name].shape)}"
            )
    return model, state, {key: one for key, one in beside.items() if key not in state}


def of_classifier(name: str, tensors: Tensors) -> dict[str, Tensor]:
    """The tensors that a classifier has beside the layers, as far as a file holds them."""
    said = architecture(name)
    names = {
        f"{own}.{kind}": f"{theirs}.{kind}"
        for head in (said.classifier, said.token_classifier)
        for own, theirs in head.get("weights", {}).items()
        for kind in ("weight", "bias")
    }
    return {own: tensors[theirs] for own, theirs in names.items() if theirs in tensors}


def tensors_of(folder: Path) -> tuple[list[str], Callable[[str], Tensor]]:
    """The names of all tensors in a folder, and a function that reads one."""
    require("safetensors", "export")
    from safetensors import SafetensorError, safe_open

    where = shards_of(folder)
    found: dict[str, str] = {}
    for name in dict.fromkeys(where.values()) or [WEIGHTS]:
        path = folder / name
        check_regular(path)
        try:
            with safe_open(path, "pt") as file:
                found |= dict.fromkeys(file.keys(), name)
        except (SafetensorError, OSError, ValueError) as error:
            raise BadRun(f"{path} is cut short or damaged ({type(error).__name__})") from None
    for tensor in found.keys() ^ where.keys() if where else ():
        lacks = f"{INDEX} does not name" if tensor in found else f"{where[tensor]} does not hold"
        raise BadRun(f"{folder} is damaged: {lacks} {tensor!r}")

    def read(tensor: str) -> Tensor:
        value = tensor_of(folder / found[tensor], tensor)
        if not value.is_floating_point():
            return value
        if value.element_size() < 2:
            raise BadOption(f"{tensor} is quantised ({value.dtype}), which tfzoo does not read")
        return value

    return list(found), read


def shards_of(folder: Path) -> dict[str, str]:
    """The file of each tensor by the index; empty where all are in one file."""
    if (folder / WEIGHTS).is_file():
        return {}
    if not (folder / INDEX).is_file():
        pickles = sorted(path.name for one in PICKLES for path in folder.glob(one))
        if pickles:
            raise BadRun(
                f"{folder} holds {pickles[0]}, which can hold code and is not read: save the model "
                "with transformers again, which writes safetensors"
            )
        raise BadRun(f"{folder} holds no weights: {WEIGHTS}, or {INDEX} and its files")
    index = json_of(folder / INDEX)
    where = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(where, dict) or not where:
        raise BadRun(f"{folder / INDEX} is damaged: it has no weight_map")
    for name in where.values():
        if not isinstance(name, str) or not SHARD.fullmatch(name):
            raise BadRun(f"{folder / INDEX} names {name!r}, which is no file beside it")
    return where
