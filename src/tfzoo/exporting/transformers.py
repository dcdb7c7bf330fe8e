"""A folder that ``AutoModel...from_pretrained`` of Hugging Face's ``transformers`` loads.

The tables of an architecture (:mod:`tfzoo.models.architectures`) are read backwards, and the
configuration is read forwards again and compared with the model's: a part that ``transformers`` has
not is refused.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from einops import rearrange
from torch import Tensor

from tfzoo.base.files import new_folder
from tfzoo.base.memory import without_data
from tfzoo.base.registry import registry
from tfzoo.base.special_ids import SpecialIds
from tfzoo.data.tokenizers import LibraryTokenizer, Pretrained
from tfzoo.errors import BadOption, UnknownName, listing
from tfzoo.exporting.model import name_of, own_model
from tfzoo.learning.model_card import model_card
from tfzoo.learning.task import Task
from tfzoo.models.architectures import architecture, names
from tfzoo.models.architectures.config import (
    MODELS,
    PROBLEMS,
    READERS,
    TASK_PARAMS,
    at,
    read_config,
    with_scaling,
)
from tfzoo.models.architectures.weights import layer_of, line, sizes_of, table_of
from tfzoo.models.language_model import LanguageModel
from tfzoo.models.transformer import Transformer
from tfzoo.runs.pretrained import CARD, CONFIG, WEIGHTS

SPECS = {
    **{kind: kind for kind in ("attention", "weighting", "norm", "position", "feedforward")},
    **{"mixer": "mixer", "residual": "residual", "pooling": "pooling", "embedding_norm": "norm"},
    "token_head": "pooling",
}
"""The options of a model that are components, and their kinds."""
UNSAID = frozenset(
    {
        *("init_std", "embedding_std", "allow", "max_length", "like"),
        *("dropout", "attention_dropout", "feedforward_dropout"),
    }
)
"""Options that a configuration need not say, as they change no output of what fits."""


def export(task: Task, folder: Path) -> None:
    """Write the folder.

    Raises:
        BadOption: ``transformers`` has no model or tokenizer like the task's; the message names the
            part.
        TfzooError: the folder exists and is not empty, or cannot be written.
    """
    from safetensors.torch import save_file

    model: Any = own_model(task, "transformers")
    tokenizer = getattr(task.tokenizer, "tokenizer", None) or task.tokenizer.target
    special = tokenizer.special
    name, config = config_of(
        model, list(getattr(task.tokenizer, "labels", ())), task.published, special.pad
    )
    if len(task.text_names) > 1:
        config[TASK_PARAMS] = {"tfzoo": {"texts": task.text_names}}
    ids = {"pad": special.pad, "bos": special.bos, "eos": special.eos}
    ids["decoder_start"] = special.start if isinstance(model, Transformer) else None
    ids = {f"{key}_token_id": one for key, one in ids.items() if one is not None}
    files, named = tokenizer_of(task, tokenizer, model)
    if (model.config.get("token_types") or 0) > 1:  # else its tokenizer leaves them out
        named["model_input_names"] = ["input_ids", "token_type_ids", "attention_mask"]
    if (most := task.max_length()) is not None:  # with truncation=True, the rest is left out
        named["model_max_length"] = most
    contents = {CONFIG: config | ids, "tokenizer_config.json": named}
    contents["generation_config.json"] = ids | generation_of(task, model, special)
    files |= {key: f"{json.dumps(one, indent=2)}\n".encode() for key, one in contents.items()}
    kept = {**task.checkpoint_entry(), "results": task.results}
    size = sum(one.numel() for one in model.parameters())
    files[CARD] = model_card(kept, size, peer=config["architectures"][0]).encode()
    with new_folder(folder) as place:
        save_file(tensors_of(name, model), place / WEIGHTS, metadata={"format": "pt"})
        for file, data in files.items():
            (place / file).write_bytes(data)


def tokenizer_of(task: Task, tokenizer: Any, model: Any) -> tuple[dict[str, bytes], dict[str, Any]]:
    """The files of a tokenizer, and what ``tokenizer_config.json`` says. One of tfzoo's own is a
    ``PreTrainedTokenizerFast`` that puts the special tokens around a text which the model expects.

    Raises:
        BadOption: ``transformers`` has none like it.
    """
    special = tokenizer.special
    known = {key: getattr(special, key) for key in ("pad", "bos", "eos", "unk", "mask", "cls")}
    known["sep"] = None if special.cls is None else special.sep[0]
    names = {key: name_of(tokenizer, one) for key, one in known.items() if one is not None}
    named: dict[str, Any] = {
        f"{key}_token": name for key, name in names.items() if name is not None
    }
    if isinstance(tokenizer, LibraryTokenizer) and getattr(task.tokenizer, "joint", True):
        from tokenizers import Tokenizer, processors

        library, (begin, end) = Tokenizer.from_str(tokenizer.state()), (names["bos"], names["eos"])
        reads = isinstance(model, LanguageModel)
        library.post_processor = processors.TemplateProcessing(
            single=[begin, "$A"] if reads else ["$A", end],
            pair=["$A", end, "$B", end],
            special_tokens=[(begin, special.bos), (end, special.eos)],
        )
        named |= {"tokenizer_class": Pretrained.transformers_class, "split_special_tokens": True}
        return {"tokenizer.json": library.to_str().encode()}, named
    if not isinstance(tokenizer, Pretrained):
        raise BadOption(
            f"transformers has no tokenizer {tokenizer.entry.name!r} like this one: "
            "'bpe', 'unigram' and 'word' of one vocabulary are written, 'pretrained' and "
            "'sentencepiece'"
        )
    named["tokenizer_class"] = tokenizer.transformers_class
    if getattr(tokenizer, "own_ids_of_target", False):
        named["separate_vocabs"] = True
    return tokenizer.files(), named


def generation_of(task: Task, model: Any, special: SpecialIds) -> dict[str, Any]:
    """What ``generate`` is told beside ids: where it ends, and of a translator its search."""
    found: dict[str, Any] = {"eos_token_id": [*special.ends] if special.also_eos else special.eos}
    if special.forced_bos is not None:
        found["forced_bos_token_id"] = special.forced_bos
    if (search := getattr(task, "search", None)) is not None:
        found |= {"num_beams": search.beam, "max_length": model.config["max_length"]}
        found["bad_words_ids"] = [[one] for one in sorted(special.never)]
    return found


# Weights ------------------------------------------------------------------------------------------


def tensors_of(
    name: str, model: Any, state: Mapping[str, Tensor] | None = None
) -> dict[str, Tensor]:
    """The tensors of a model by their names in ``transformers``. ``state`` is what to convert: its
    ``state_dict``, or the parameters of some names, beside which a tensor that holds several is 0.
    """
    table, found = table_of(name, model), {}
    taken: dict[str, tuple[Mapping[str, Any], dict[int, Tensor]]] = {}

    def put(said: Any, suffix: str, value: Tensor, layer: str) -> None:
        if isinstance(said, str):
            found[f"{said.replace('*', layer)}{suffix}"] = value.detach().cpu().contiguous().clone()
        elif isinstance(said, list):
            for one, part in zip(said, value.chunk(len(said)), strict=True):
                put(one, suffix, part, layer)
        elif "take" in said:
            key = f"{said['of'].replace('*', layer)}{suffix}"
            taken.setdefault(key, (said, {}))[1][said["take"]] = value
        else:
            put(said["of"], suffix, undone(said, value, model), layer)

    for own, value in (model.state_dict() if state is None else state).items():
        put(*line(table, own, name), value, layer_of(own))
    for key, (said, parts) in taken.items():
        nothing = torch.zeros_like(next(iter(parts.values())))
        stacked = torch.stack([parts.get(index, nothing) for index in range(said["p"])])
        put(key, "", undone(said, stacked, model), "")
    saved_as = architecture(name).saved_as
    return {saved_as.get(key, key): value for key, value in found.items()}


def undone(said: Mapping[str, Any], value: Tensor, model: Any) -> Tensor:
    """A tensor before its axes were rearranged, its first rows left out and its values divided."""
    sizes = sizes_of(said, model)
    value = value * sizes.pop("over_sqrt", 1) ** 0.5
    if "rearrange" in said:
        before, after = said["rearrange"].split("->")
        value = rearrange(value, f"{after} -> {before}", **sizes)
    if "skip" in said:
        value = torch.cat([value.new_zeros(said["skip"], *value.shape[1:]), value])
    return value


# Configuration ------------------------------------------------------------------------------------


def config_of(
    model: Any, labels: list[str], published: str = "", pad: int | None = 0
) -> tuple[str, dict[str, Any]]:
    """The architecture that a model is like, and the configuration of ``transformers``;
    ``published`` is what its task declares, ``pad`` the tokenizer's id of padding.

    Raises:
        BadOption: none has its parts; the message names those that differ from the closest.
    """
    best: tuple[list[str], str, dict[str, Any]] | None = None
    wanted = plain(model.config)
    for name in names():
        said = architecture(name)
        classifies = type(model).__name__ == "TransformerClassifier"
        head = said.classifier_with(wanted["pooling"]) if classifies else {}
        if not said.config or not (head or isinstance(model, MODELS[said.model])):
            continue
        config = written(name, model, wanted, head, labels, published, pad)
        try:
            read = without_data(type(model), read_config(config).options)
            found = plain(read.config)  # type: ignore[arg-type]  # of a tfzoo model
        except (BadOption, UnknownName):
            continue
        differs = differing(wanted, found)
        if best is None or len(differs) <= len(best[0]):  # of bert and distilbert the latter
            best = differs, name, config
    if best is None or best[0]:
        why = ""
        if best is not None:
            why = f": {listing(best[0])}. Train anew with --model.like {best[1]} and without them"
        raise BadOption(
            f"transformers has no model with these options{why}. --to safetensors and --to onnx "
            "write it as it is"
        )
    return best[1], best[2]


def differing(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    """The options that differ, those of one side that the other options do not name as well by
    their dotted names.
    """
    names = {key for key in wanted.keys() - UNSAID if wanted[key] != found.get(key)}
    sides = names & {"encoder", "decoder"}
    own = {f"{side}.{key}" for side in sides for key in differing(wanted[side], found[side])}
    return sorted(names - sides | {key for key in own if key.partition(".")[2] not in names})


def plain(config: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a model, with all options of each component, and the sizes that follow from
    others.
    """
    found = dict(config)
    for key, kind in SPECS.items():
        if found.get(key) is not None:
            entry, given = registry(kind).options(found[key])
            defaults = {name: one.default for name, one in entry.options.items()}
            found[key] = {"name": entry.name, **defaults, **given}
            if key == "position":
                found[key] = with_scaling(found[key])
            usual_width = getattr(entry.cls, "usual_width", None)  # of a layer with a width
            if usual_width and found[key].get("hidden", 0) is None:
                found[key]["hidden"] = usual_width(found["dim"])
    sides = {side: found.pop(side) for side in ("encoder", "decoder") if side in found}
    for side, changes in sides.items():
        changed = {**{key: found[key] for key in SIDED}, **(changes or {})}
        own = plain({"feedforward": changed["feedforward"], "dim": found["dim"]})
        found[side] = {**changed, "feedforward": own["feedforward"]}
    if sides:
        found |= {key: found["encoder"][key] for key in SIDED}
    if "heads" in found:
        found["kv_heads"] = found.get("kv_heads") or found["heads"]
        found["head_dim"] = found.get("head_dim") or found["dim"] // found["heads"]
    if "source_vocab_size" in found:
        found["source_vocab_size"] = found["source_vocab_size"] or found["vocab_size"]
    if found.get("query_key_norm"):
        inner = plain({"norm": found["query_key_norm"]["norm"]})["norm"]
        found["query_key_norm"] = {"over": "head", **found["query_key_norm"], "norm": inner}
    return found


SIDED = ("layers", "heads", "feedforward")
"""Options that encoder and decoder may have of their own."""


def written(
    name: str,
    model: Any,
    options: Mapping[str, Any],
    head: Mapping[str, Any],
    labels: list[str],
    published: str,
    pad: int | None,
) -> dict[str, Any]:
    """What a ``config.json`` of an architecture would say of a model; ``head`` is the section of
    its file for classifiers such as this one, or empty.
    """
    said = architecture(name)
    cls = head["classes"][0] if head else said.transformers
    kind = said.config["type"]
    found: dict[str, Any] = {
        "model_type": kind if isinstance(kind, str) else kind[0],
        "architectures": [cls],
        "dtype": str(next(model.parameters()).dtype).removeprefix("torch."),
    }
    if head:
        labels = labels or [f"LABEL_{index}" for index in range(options["classes"])]
        found["id2label"] = {str(index): label for index, label in enumerate(labels)}
        found["label2id"] = {label: index for index, label in enumerate(labels)}
        found |= {"problem_type": published} if published in PROBLEMS else {}
    for key, entry in {**said.config["keys"], **head.get("keys", {})}.items():
        if "cases" in entry:
            fits = (
                case
                for case, changes in sorted(entry["cases"].items(), key=lambda one: -len(one[1]))
                if all(at(options, one) == value for one, value in changes.items())
            )
            found[key] = next(fits, entry["default"])
        elif "option" in entry:
            first = entry["option"] if isinstance(entry["option"], str) else entry["option"][0]
            value = at(options, first)
            found[key] = value + entry["minus"] if "minus" in entry and value else value
    found |= {} if pad is None else {"pad_token_id": pad}
    for reader in said.config.get("readers", ()):
        found |= READERS[reader].write(options)
    return found
