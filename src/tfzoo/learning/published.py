"""A folder that ``save_pretrained`` of Hugging Face's ``transformers`` wrote, in the form of a
checkpoint: the model as a sum of tfzoo's parts, its tokenizer, and the recipe of its task.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch

from tfzoo.base.registry import registry
from tfzoo.base.terminal import notify
from tfzoo.data.published_tokenizer import found_in, json_of, sha256_of
from tfzoo.errors import BadRun
from tfzoo.models.architectures import options_like
from tfzoo.models.architectures.config import Model, Published, read_config
from tfzoo.models.architectures.published import config_of, located, read_weights, without_head
from tfzoo.models.classifier import TransformerClassifier
from tfzoo.models.language_model import LanguageModel
from tfzoo.models.masked_language_model import MaskedLanguageModel
from tfzoo.models.transformer import Transformer
from tfzoo.runs import checkpoints, memory

COMMANDS: Mapping[type[Model], str] = {
    LanguageModel: "generate",
    MaskedLanguageModel: "fill",
    Transformer: "translate",
    TransformerClassifier: "classify",
}
"""What applies a model of each class to text: the command of its task."""
DERIVED = frozenset({"vocab_size", "source_vocab_size", "classes", "pad"})
"""Options of a model that follow from its tokenizer."""
LANGUAGES = ("source", "target")
"""What a folder's languages are called, which it does not say."""

UNKNOWN_TO_SEARCH: Mapping[str, tuple[Any, ...]] = {
    **dict.fromkeys(("min_length", "min_new_tokens", "no_repeat_ngram_size"), (0,)),
    **dict.fromkeys(("encoder_no_repeat_ngram_size", "diversity_penalty"), (0,)),
    **dict.fromkeys(("repetition_penalty", "encoder_repetition_penalty", "num_beam_groups"), (1,)),
    **dict.fromkeys(("forced_bos_token_id", "suppress_tokens", "begin_suppress_tokens"), ()),
    **dict.fromkeys(("sequence_bias", "exponential_decay_length_penalty", "do_sample"), (False,)),
}
"""Settings of ``generate`` that change what it writes and that no search of tfzoo has, and the
values with which they change nothing.
"""


def unknown_settings(folder: Path, config: Mapping[str, Any]) -> list[str]:
    """Those of a translator's folder, with their values."""
    said = {**config, **json_of(folder / "generation_config.json")}
    return [
        f"{key}: {said[key]}"
        for key, nothing in UNKNOWN_TO_SEARCH.items()
        if said.get(key) is not None and said[key] not in (*nothing, [])
    ]


def read(folder: Path) -> dict[str, Any]:
    """The content of a folder in the form of a checkpoint: ``state_dict`` and ``tfzoo``.

    Raises:
        BadRun: as :func:`from_pretrained`; or there is no ``tokenizer.json``.
    """
    config = config_of(folder)
    with located(folder):
        published = read_config(config)
        spec, state = found_in(folder)
    model, state_dict = read_weights(folder, published)
    recipe: dict[str, Any] = {"task": task_of(published), "seed": 0, "model": options_of(model)}
    tokenizer: dict[str, Any]
    if published.model is Transformer:
        tokenizer = {"languages": list(LANGUAGES), "tokenizer": spec, "states": [state]}
        beams = json_of(folder / "generation_config.json").get("num_beams", config.get("num_beams"))
        if unknown := unknown_settings(folder, config):
            notify(
                f"{folder}: generate of transformers would also use {', '.join(unknown)}, which no "
                "search of tfzoo has: its translations may differ"
            )
        recipe["search"] = {"beam": beams} if isinstance(beams, int) and beams > 0 else {}
    else:
        labels = list(published.classes)
        tokenizer = {"tokenizer": spec, "state": state, "labels": labels, "texts": ["text"]}
    kept = {
        "format": checkpoints.FORMAT,
        "task": recipe["task"],
        "recipe": recipe,
        "tokenizer": tokenizer,
    }
    if published.bare:
        kept["headless"] = without_head(folder, published)
    weights = {f"model.{key}": one for key, one in state_dict.items()}
    if published.classes and not published.by_token:
        weights["class_weights"] = torch.ones(len(published.classes))
    return {"state_dict": weights, "tfzoo": {**kept, "batches": 0}}


def options_of(model: Model) -> dict[str, Any]:
    """Those that a recipe says; no pooling follows from the task."""
    kept = {key: one for key, one in model.config.items() if key not in DERIVED}
    return {key: one for key, one in kept.items() if (key, one) != ("pooling", None)}


def starting_values(folder: Path, wanted: type, supplied: Collection[str] = ()) -> dict[str, Any]:
    """What a recipe takes from a folder whose weights its training starts with: the options of the
    model, as far as the class ``wanted`` has them and its task has not ``supplied`` them, and the
    tokenizer.

    Raises:
        BadRun: as :func:`read`.
    """
    with located(folder):
        published = read_config(config_of(folder))
        model: Any = memory.check_model(published.model, published.options, memory.here(), BadRun)
        name, state = found_in(folder)
    known = inspect.signature(wanted).parameters
    options = {**options_like(published.architecture, wanted), **options_of(model)}
    tokenizer = {"name": name, "folder": str(folder), "sha256": sha256_of(state)}
    return {
        "model": {key: options[key] for key in known if key in options and key not in supplied},
        "data": {"tokenizer": tokenizer},
    }


def task_of(published: Published) -> str:
    """The name of the task of a model; that of its class where no task has one, so that a training
    of another task can start with its weights.
    """
    commands = registry("task").declared("command")
    wanted = "label" if published.by_token else COMMANDS[published.model]
    found = [task for task, command in commands.items() if command == wanted]
    return found[0] if found else published.model.__name__
