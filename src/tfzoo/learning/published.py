"""A folder that ``save_pretrained`` of Hugging Face's ``transformers`` wrote, in the form of a
checkpoint: the model as a sum of tfzoo's parts, its tokenizer, and the recipe of its task.
"""

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfzoo.base import memory
from tfzoo.base.registry import registry
from tfzoo.base.terminal import notify
from tfzoo.data.tokenizer import found_in, json_of, sha256_of
from tfzoo.errors import BadRun
from tfzoo.models.architectures import architecture, options_like
from tfzoo.models.architectures.config import TASK_PARAMS, Model, Published, at, read_config
from tfzoo.models.architectures.published import config_of, located, read_weights, without_head
from tfzoo.runs import checkpoints

DERIVED = frozenset({"vocab_size", "source_vocab_size", "classes"})
"""Options of a model that follow from its tokenizer."""
UNKNOWN_SETTINGS: Mapping[str, tuple[Any, ...]] = {
    **dict.fromkeys(("min_length", "min_new_tokens", "no_repeat_ngram_size"), (0,)),
    **dict.fromkeys(("encoder_no_repeat_ngram_size", "diversity_penalty"), (0,)),
    **dict.fromkeys(("repetition_penalty", "encoder_repetition_penalty", "num_beam_groups"), (1,)),
    **dict.fromkeys(("suppress_tokens", "begin_suppress_tokens"), ()),
    **dict.fromkeys(("sequence_bias", "exponential_decay_length_penalty", "do_sample"), (False,)),
    **{"length_penalty": (1,), "early_stopping": (False,)},
}
"""Settings of ``generate`` of ``transformers`` that change what it writes and that no search of
tfzoo has as they are there, and the values with which they change nothing.
"""


def read(folder: Path) -> dict[str, Any]:
    """The content of a folder in the form of a checkpoint: ``state_dict`` and ``tfzoo``; and
    ``beside``, what a classifier could begin with.

    Raises:
        BadRun: as :func:`from_pretrained`; or there is no ``tokenizer.json``.
    """
    config = config_of(folder)
    with located(folder):
        published = read_config(config)
        spec, state = found_in(folder)
    model, state_dict, beside = read_weights(folder, published)
    task = task_of(published)
    labels, texts = list(published.classes), at(config, f"{TASK_PARAMS}.tfzoo.texts")
    kept = {
        "format": checkpoints.FORMAT,
        "task": task,
        "recipe": {
            "task": task,
            "seed": 0,
            "model": {"like": published.architecture, **options_of(model)},
        },
        "tokenizer": {
            "tokenizer": spec,
            "state": state,
            "labels": labels,
            # of a classifier that tfzoo exported; transformers has no key for it
            "texts": texts if labels and isinstance(texts, list) else ["text"],
        },
        "batches": 0,
    }
    if published.bare:
        kept["headless"] = without_head(folder, published)
    weights, more = (
        {f"model.{key}": one for key, one in part.items()} for part in (state_dict, beside)
    )
    found = {"state_dict": weights, "beside": more, "tfzoo": kept}
    if task in registry("task").names():
        cls: Any = registry("task").entry(task).cls
        cls.complete(found, folder)
    return found


def options_of(model: Model) -> dict[str, Any]:
    """Those that a recipe says; no pooling follows from the task."""
    kept = {key: one for key, one in model.config.items() if key not in DERIVED}
    return {key: one for key, one in kept.items() if (key, one) != ("pooling", None)}


def starting_values(folder: Path, task: Any) -> dict[str, Any]:
    """What a recipe of a task takes from a folder whose weights its training starts with: the
    options of the model, see :func:`starting_model`, and the tokenizer. Errors are as of
    :func:`read`.
    """
    with located(folder):
        published = read_config(config_of(folder))
        model: Any = memory.check_model(published.model, published.options, BadRun)
        name, state = found_in(folder)
        own = {"like": published.architecture, **options_of(model)}
    tokenizer = {"name": name, "folder": str(folder), "sha256": sha256_of(state)}
    return {"model": starting_model(own, task), "data": {"tokenizer": tokenizer}}


def starting_model(own: Mapping[str, Any], task: Any) -> dict[str, Any]:
    """The options of a task's model with those of its ``own`` that the class of the model has and
    the task does not supply; others as the architecture has them that it is like.
    """
    wanted, supplied = task.Model, task.model_arguments()
    name = own.get("like")
    options = {**(options_like(name, wanted) if name else {}), **own}
    options.pop("token_head", None)
    if supplied.get("pooling", "") is None:
        options |= {**(architecture(name).by_token if name else {}), **own}
    known = [key for key in inspect.signature(wanted).parameters if key not in ("like", *supplied)]
    return {key: options[key] for key in known if key in options}


def task_of(published: Published) -> str:
    """The name of the task of a model; that of its class where no task has one, so that a training
    of another task can start with its weights.
    """
    wanted = "words" if published.by_token else published.problem or published.model.__name__
    return next(iter(registry("task").declaring("published", wanted)), published.model.__name__)


def generation_settings(folder: Path) -> dict[str, Any]:
    """What a folder tells ``generate`` of ``transformers``; a line names the settings that tfzoo
    does not follow, if any.
    """
    said = {**config_of(folder), **json_of(folder / "generation_config.json")}
    unknown = [
        f"{key}: {said[key]}"
        for key, nothing in UNKNOWN_SETTINGS.items()
        if said.get(key) is not None and said[key] not in (*nothing, [])
    ]
    if unknown:
        notify(
            f"{folder}: generate of transformers would also use {', '.join(unknown)}, which "
            "tfzoo predict does not by itself: what it writes may differ"
        )
    return said
