"""What ``config.json`` of Hugging Face's ``transformers`` says, as the options of a tfzoo model.

The section ``config`` of an architecture's file has

- ``type``: the values of ``model_type``, and ``when``: values of other keys, where two
  architectures have the same;
- ``also``: further classes of ``transformers`` with the same weights;
- ``keys``: what each key of ``config.json`` says. ``{option: dim, default: 768}`` is the value of
  an option, or of each of a list; ``default`` is what ``transformers`` takes where the key is
  missing, and ``otherwise`` names another key to read where it is null. ``{cases: {gelu: {...}}}``
  has the options of each value; all others are refused;
- ``readers``: entries of :data:`READERS`, for what several keys say together;
- ``options``: options that no key says; ``ignored``: patterns of keys that change no output.

A key that is none of these is refused, unless its value is null, false or empty: it could change
what the model computes. The section ``classifier`` has the ``classes`` that classify texts, and
``keys`` and ``weights`` that are theirs beside those of the architecture; ``token_classifier`` has
those that classify each token, and ``options`` of theirs.
"""

import inspect
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, get_args

from tfzoo.base import rotary_scaling
from tfzoo.base.values import check_number, check_range, leaves
from tfzoo.errors import BadOption, listing
from tfzoo.models.architectures import architecture, names, options_like
from tfzoo.models.classifier import TransformerClassifier
from tfzoo.models.language_model import LanguageModel
from tfzoo.models.masked_language_model import MaskedLanguageModel
from tfzoo.models.transformer import Transformer

Model = Transformer | LanguageModel | MaskedLanguageModel | TransformerClassifier
MODELS: Mapping[str, type[Model]] = {one.__name__: one for one in get_args(Model)}
"""The classes that an architecture's file names."""

SWAPS = "tfzoo_swaps"
"""The key of the swaps of :func:`tfzoo.swap`, which make it a model of ``transformers`` alone."""
TASK_PARAMS = "task_specific_params"
UNUSED = (
    *("_attn_implementation", "_attn_implementation_autoset", "_name_or_path", "_num_labels"),
    *("architectures", "begin_suppress_tokens", "chunk_size_feed_forward", "dtype"),
    *("finetuning_task", "gradient_checkpointing", "id2label", "initializer_range"),
    *("is_encoder_decoder", "label2id", "model_type", "num_labels", "problem_type"),
    *("return_dict", TASK_PARAMS, "torch_dtype", "transformers_version", "use_cache"),
    *("*_token_id", "bad_words_ids", "do_sample", "early_stopping", "length_penalty"),
    *("max_length", "min_length", "no_repeat_ngram_size", "num_beams", "temperature", "top_k"),
    *("top_p", "output_past", "language", "tokenizer_class"),
)
"""Patterns of keys of any ``config.json`` that change no output."""


@dataclass(frozen=True)
class Published:
    """What a ``config.json`` describes.

    Args:
        architecture: the name of the architecture.
        model: the class of the model.
        options: the arguments of its constructor.
        classes: the names of the classes of a classifier, in the order of its outputs.
        problem: of a classifier of texts, what its outputs are: ``problem_type``.
        bare: the class of ``transformers`` where it is a model without a head; else "".
    """

    architecture: str
    model: type[Model]
    options: Mapping[str, Any]
    classes: tuple[str, ...] = ()
    problem: str = ""
    bare: str = ""

    @property
    def by_token(self) -> bool:
        """Whether it classifies each token, not the text."""
        return self.model is TransformerClassifier and self.options["pooling"] is None


def read_config(config: Mapping[str, Any]) -> Published:
    """The model that the content of a ``config.json`` describes.

    >>> found = read_config({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4})
    >>> found.model.__name__, found.options["dim"], found.options["norm"]
    ('LanguageModel', 64, {'name': 'rms', 'eps': 1e-06})

    Raises:
        BadOption: it asks for code of its own, is of no architecture of tfzoo, or has a key or a
            value that tfzoo has no part for; the message names it.
    """
    if config.get("auto_map"):
        raise BadOption("it asks for code of its own (auto_map), which tfzoo never runs")
    if config.get(SWAPS):
        raise BadOption(
            "tfzoo.swap changed it: it is loaded in Python, by tfzoo.from_pretrained(FOLDER)"
        )
    name = architecture_of(config)
    said = architecture(name)
    written = check_class(name, config)
    heads = (said.classifier, said.token_classifier)
    head = next((one for one in heads if written in one.get("classes", [])), {})
    headless = written if written in bare(name) else ""
    classifies = bool(head or (headless and said.classifier))  # BertModel has BERT's pooling
    model = TransformerClassifier if classifies else MODELS[said.model]
    table: dict[str, Any] = {**said.config["keys"], **head.get("keys", {})}
    readers = [READERS[reader] for reader in said.config.get("readers", ())]
    known = [*table, *(key for reader in readers for key in reader.keys)]
    check_keys(config, [*known, *said.config.get("ignored", ())], name)
    options = options_like(name, model)
    options |= said.by_token if head and head is said.token_classifier else {}
    options |= said.config.get("options", {})
    found = [pair for key in table for pair in said_by(key, table, config, name)]
    for option, value in sorted(found, key=lambda pair: pair[0].startswith(SIDES)):
        set_option(options, option, value)
    for key in ("dim", "heads", "layers"):  # readers compute with them
        check_range(
            f"config.json's {key}", options.get(key, 1), ge=0 if key == "layers" else 1, whole=True
        )
    for reader in readers:
        for option, value in reader.read(config, options).items():
            set_option(options, option, value)
    own = inspect.signature(model).parameters
    options = without_sides({key: value for key, value in options.items() if key in own})
    problem, classes = class_names(config) if head else (SINGLE if classifies else "", ())
    number = 1 if problem == REGRESSION else len(classes) or 2
    options |= {"classes": number} if classifies else {}
    if head and head is said.token_classifier:
        if problem != SINGLE:
            raise BadOption(f"it classifies words, and its problem_type would be {problem}")
        problem = ""
    for keys, value in leaves({"model": options}):
        check_number(keys, value, "config.json")
    return Published(name, model, options, classes, problem, headless)


def architecture_of(config: Mapping[str, Any]) -> str:
    """The name of the architecture of a ``config.json``."""
    kind = config.get("model_type")
    found = []
    for name in names():
        said = architecture(name).config
        kinds = said.get("type", [])
        if kind not in ([kinds] if isinstance(kinds, str) else kinds):
            continue
        if all(config.get(key) in values for key, values in said.get("when", {}).items()):
            return name
        found += said["when"]
    if found:
        values = ", ".join(f"{key}: {config.get(key)!r}" for key in found[:1])
        raise BadOption(f"no architecture of tfzoo is of type {kind!r} with {values}")
    known = [name for name in names() if architecture(name).config]
    raise BadOption(
        f"its model_type {kind!r} is no architecture of tfzoo: {listing(known, len(known))}"
    )


def own_classes(name: str) -> list[str]:
    """The classes of ``transformers`` with an architecture's own head."""
    said = architecture(name)
    return [said.transformers, *said.config.get("also", ())]


def bare(name: str) -> list[str]:
    """The same without a head.

    >>> bare("gpt2")
    ['GPT2Model']
    """
    return [re.sub(r"(For\w+|LMHeadModel|MTModel)$", "Model", one) for one in own_classes(name)]


def check_class(name: str, config: Mapping[str, Any]) -> str:
    """The class that wrote a ``config.json``."""
    said = architecture(name)
    written = config.get("architectures") or [said.transformers]
    if not (isinstance(written, list) and written and isinstance(written[0], str)):
        raise BadOption(f"architectures must be a list of one class, not {written!r}")
    heads = [
        one for head in (said.classifier, said.token_classifier) for one in head.get("classes", [])
    ]
    known = list(dict.fromkeys([*own_classes(name), *heads, *bare(name)]))
    if written[0] not in known:
        raise BadOption(
            f"its class {written[0]} has another head than tfzoo's models: {listing(known, 9)}"
        )
    return str(written[0])


def check_keys(config: Mapping[str, Any], known: Sequence[str], name: str) -> None:
    """Refuse a key that says something, but not to tfzoo."""
    for key, value in config.items():
        # By is_causal: false, transformers lets a decoder see later tokens.
        nothing = not value and (key, value) != ("is_causal", False)
        if nothing or any(fnmatchcase(key, one) for one in (*UNUSED, *known)):
            continue
        raise BadOption(
            f"config.json says {key}: {str(value)[:60]}, which tfzoo's {name} does not know: if it "
            "changes no output, remove it"
        )


def said_by(
    key: str, table: Mapping[str, Any], config: Mapping[str, Any], name: str
) -> Iterator[tuple[str, Any]]:
    """The options that one key says, by their dotted names."""
    entry = table[key]
    value = config.get(key, entry["default"])
    if value is None and "otherwise" in entry:
        value = config.get(entry["otherwise"], table[entry["otherwise"]]["default"])
    if "cases" in entry:
        if not isinstance(value, str | int | float | None) or value not in entry["cases"]:
            wanted = " or ".join(str(one).lower() for one in entry["cases"])
            raise BadOption(f"config.json says {key}: {value}; tfzoo's {name} needs {wanted}")
        yield from entry["cases"][value].items()
        return
    if not isinstance(value, int | float | None) or (
        isinstance(value, bool) != isinstance(entry["default"], bool) and value is not None
    ):
        raise BadOption(f"config.json says {key}: {str(value)[:60]!r}, which is no number")
    if "minus" in entry and value is not None:
        value -= entry["minus"]
    options = entry["option"]
    yield from ((one, value) for one in ([options] if isinstance(options, str) else options))


SIDES = ("encoder.", "decoder.")


def at(options: Mapping[str, Any], dotted: str) -> Any:
    """The value of an option by its dotted name."""
    value: Any = options
    for key in dotted.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def set_option(options: dict[str, Any], option: str, value: Any) -> None:
    """Set an option by its dotted name, such as ``feedforward.hidden`` or, for one side,
    ``encoder.feedforward.hidden``.
    """
    first, _, rest = option.partition(".")
    if option.startswith(SIDES):
        side = options.get(first) or {}
        key = rest.partition(".")[0]
        own = {key: side.get(key, options.get(key))}
        set_option(own, rest, value)
        options[first] = {**side, **own}
    elif rest:
        spec = options.get(first)
        spec = {"name": spec} if isinstance(spec, str) else dict(spec or {})
        set_option(spec, rest, value)
        options[first] = spec
    else:
        options[first] = value


def without_sides(options: dict[str, Any]) -> dict[str, Any]:
    """The same options, said once where encoder and decoder have the same."""
    if "encoder" in options and options["encoder"] == options.get("decoder"):
        both = options.pop("encoder")
        del options["decoder"]
        return {**options, **both}
    return options


SINGLE, MULTIPLE, REGRESSION = PROBLEMS = (
    "single_label_classification",
    "multi_label_classification",
    "regression",
)
"""The values of ``problem_type``."""


def class_names(config: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """What a classifier's outputs are, and the names of its classes; a number has none. Where
    ``problem_type`` says nothing, one output is a number, as ``transformers`` trains it.
    """
    labels = config.get("id2label", {str(i): f"LABEL_{i}" for i in range(2)})
    wanted = [str(i) for i in range(len(labels))] if isinstance(labels, dict) else []
    if not wanted or {*labels} != {*wanted}:
        raise BadOption("id2label must name each class of a classifier, from 0 on")
    if not all(isinstance(one, str) for one in labels.values()):
        raise BadOption("id2label must hold names")
    problem = config.get("problem_type") or (SINGLE if len(labels) > 1 else REGRESSION)
    if problem not in PROBLEMS:
        raise BadOption(f"its problem_type is {problem!r}; tfzoo reads {listing(PROBLEMS)}")
    if problem != MULTIPLE and (problem == REGRESSION) != (len(labels) == 1):
        raise BadOption(f"its problem_type is {problem}, and it has {len(labels)} labels")
    return problem, () if problem == REGRESSION else tuple(labels[i] for i in wanted)


# What several keys say together -------------------------------------------------------------------


def number(config: Mapping[str, Any], key: str, default: float) -> Any:
    """What a key says, a number over 0, or else the default."""
    value = default if config.get(key) is None else config[key]
    check_range(f"config.json's {key}", value, gt=0)
    return value


@dataclass(frozen=True)
class Reader:
    """What ``keys`` say together: ``read(config, options)`` gives the options, and
    ``write(options)`` the keys of a model with these options.
    """

    keys: tuple[str, ...]
    read: Callable[[Mapping[str, Any], Mapping[str, Any]], dict[str, Any]]
    write: Callable[[Mapping[str, Any]], dict[str, Any]]


GENERAL = ("rope_type", "type", "rope_theta", "partial_rotary_factor")
TRAINED_LENGTH = "original_max_position_embeddings"
"""The length of the texts that a model was trained on; ``max_position_embeddings`` if missing."""
SCALINGS: Mapping[str, Mapping[str, str]] = {"default": {}} | {
    kind: {
        {"original_max_length": TRAINED_LENGTH}.get(one.name, one.name): one.name
        for one in fields(rotary_scaling.SCALINGS[kind])
    }
    for kind in ("linear", "yarn", "llama3")
}
"""The names of tfzoo for the keys of each ``rope_type``."""
REQUIRED = frozenset({"factor", "low_freq_factor", "high_freq_factor", TRAINED_LENGTH})
"""The keys that ``transformers`` has no value for where they are missing."""


def rope(config: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """``rope_scaling`` of older configurations, else ``rope_parameters``; None: neither."""
    said = config.get("rope_scaling") or config.get("rope_parameters")
    if not isinstance(said, Mapping | None):
        raise BadOption(
            f"config.json says rope_parameters: {str(said)[:60]!r}, which is no mapping"
        )
    return said


def rotary(
    config: Mapping[str, Any],
    options: Mapping[str, Any],
    base_key: str = "rope_theta",
    share_key: str = "partial_rotary_factor",
) -> dict[str, Any]:
    """Rotary positions, in the words of ``transformers`` 5 or of older ones. Where nothing is
    said, those of an architecture that scales them (gpt-oss).
    """
    known, said = options["position"], rope(config)
    base = config.get(base_key, known["base"] if "scaling" in known else 10000.0)
    if said is None and "scaling" in known:
        return {"position": {**known, "base": float(base)}}
    share = config.get(share_key, known.get("fraction"))
    return {"position": position(said or {}, base, share, known, config)}


# Older configurations of GPT-NeoX have names of their own. What some files say under the usual
# names ``transformers`` does not read either.
neox_rotary = partial(rotary, base_key="rotary_emb_base", share_key="rotary_pct")


def position(
    said: Mapping[str, Any],
    base: Any,
    share: Any,
    known: Mapping[str, Any],
    config: Mapping[str, Any],
) -> dict[str, Any]:
    """The positional encoding of one ``rope_parameters``; ``known`` is that of the architecture."""
    kind = said.get("rope_type", said.get("type", "default")) or "default"
    if not isinstance(kind, str) or kind not in SCALINGS:
        raise BadOption(f"config.json says rope_type: {kind}; tfzoo has {listing(SCALINGS)}")
    table = SCALINGS[kind]
    for key, value in said.items():
        if key not in (*GENERAL, *table) and value is not None:
            raise BadOption(
                f"config.json says {key}: {value} for rope_type {kind}, unknown to tfzoo"
            )
    if TRAINED_LENGTH in table and said.get(TRAINED_LENGTH) is None:
        said = {**said, TRAINED_LENGTH: config.get("max_position_embeddings")}
    for key in table:
        if key in REQUIRED and said.get(key) is None:
            raise BadOption(f"config.json says no {key} for rope_type {kind}")
    found = {"name": "rotary", "layout": known["layout"], "base": said.get("rope_theta", base)}
    share = said.get("partial_rotary_factor", share)
    if share not in (None, 1.0) and "fraction" not in known:
        raise BadOption(
            f"config.json says partial_rotary_factor: {share}, which this class of transformers "
            "does not read: it rotates all channels"
        )
    found |= {} if share in (None, 1.0) else {"fraction": share}
    if kind != "default":
        found["scaling"] = kind
        found |= {table[key]: said[key] for key in table if said.get(key) is not None}
    return found


def with_scaling(position: Mapping[str, Any]) -> dict[str, Any]:
    """A positional encoding with the values of its scaling's options where they are None:
    ``transformers`` has others.
    """
    scaling = rotary_scaling.SCALINGS.get(position.get("scaling", "none"))
    known = {one.name: one.default for one in fields(scaling)} if scaling else {}
    given = {key: one for key, one in position.items() if one is not None}
    return {**position, **known, **given}


def written_rope(position: Any) -> dict[str, Any]:
    """``rope_parameters`` of a positional encoding."""
    if not isinstance(position, Mapping) or "layout" not in position:  # another part: refused later
        return {"rope_type": "default"}
    position = with_scaling(position)
    kind = position.get("scaling", "none")
    kind = "default" if kind == "none" else kind
    found: dict[str, Any] = {"rope_type": kind, "rope_theta": position.get("base", 10000.0)}
    for theirs, own in SCALINGS.get(kind, {}).items():
        if position.get(own) is not None:
            found[theirs] = position[own]
    if position.get("fraction", 1.0) != 1.0:
        found["partial_rotary_factor"] = position["fraction"]
    return found


def written_rotary(options: Mapping[str, Any]) -> dict[str, Any]:
    """What :func:`rotary` reads."""
    return {"rope_parameters": written_rope(options["position"])}


def windows(config: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Which layers have a window (Gemma 2, gpt-oss)."""
    layers, period = options["layers"], options.get("pattern") or [{}]
    size = config.get("sliding_window", next((one["window"] for one in period if one), None))
    kinds = [SLIDING if period[i % len(period)] else FULL for i in range(layers)]
    entries: list[dict[str, Any]] = [
        {"window": size} if one == SLIDING and size else {}
        for one in layer_types(config, layers, kinds)
    ]
    return {"pattern": shortest(entries)}


def written_windows(options: Mapping[str, Any]) -> dict[str, Any]:
    """What :func:`windows` reads."""
    pattern, layers = options.get("pattern") or [{}], options["layers"] or 0
    kinds = [SLIDING if "window" in pattern[i % len(pattern)] else FULL for i in range(layers)]
    sizes = [one["window"] for one in pattern if "window" in one]
    return {"layer_types": kinds, **({"sliding_window": sizes[0]} if sizes else {})}


SLIDING, FULL = "sliding_attention", "full_attention"


def layer_types(config: Mapping[str, Any], layers: Any, default: list[str]) -> list[str]:
    """The kind of each layer's attention."""
    kinds = config.get("layer_types") or default
    if not isinstance(kinds, list) or len(kinds) != layers:
        raise BadOption(f"layer_types must have one entry for each of {layers} layers")
    for one in kinds:
        if one not in (SLIDING, FULL):
            raise BadOption(f"config.json says layer_types: {str(one)[:60]}, unknown to tfzoo")
    return kinds


def shortest(pattern: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
    """The shortest pattern that repeats to this one; None where no layer differs."""
    size = len(pattern)
    for period in range(1, size + 1):
        if all(pattern[i] == pattern[i % period] for i in range(size)):
            return None if not any(pattern[:period]) else pattern[:period]
    return None


def local_and_global(config: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """ModernBERT's windows, with rotary positions of another base than the other layers."""
    layers, known = options["layers"], options["position"]
    every = number(config, "global_attn_every_n_layers", 3)
    kinds = layer_types(config, layers, [SLIDING if i % every else FULL for i in range(layers)])
    said = rope(config) or {}
    for one in said.values():
        if not isinstance(one, Mapping | None):
            raise BadOption("config.json's rope_parameters need a mapping for each kind of layer")
    bases = config.get("local_rope_theta") or 10000.0, config.get("global_rope_theta", 160000.0)
    near, far = (
        position(said.get(kind) or {}, base, None, known, config)
        for kind, base in zip((SLIDING, FULL), bases, strict=True)
    )
    size = config.get("local_attention", 128)
    entries: list[dict[str, Any]] = [
        {"window": size} if one == SLIDING else {"position": far} for one in kinds
    ]
    return {"position": near, "pattern": shortest(entries)}


def written_local_and_global(options: Mapping[str, Any]) -> dict[str, Any]:
    """What :func:`local_and_global` reads."""
    found = written_windows(options)
    far = [one["position"] for one in options.get("pattern") or () if "position" in one]
    both = {SLIDING: options["position"], FULL: far[0] if far else options["position"]}
    return {
        "layer_types": found["layer_types"],
        "local_attention": found.get("sliding_window", 128),
        "rope_parameters": {kind: written_rope(one) for kind, one in both.items()},
    }


def query_scale(config: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Gemma 2 divides scores by the root of a number that need not be the width of a head."""
    width = options.get("head_dim") or options["dim"] // options["heads"]
    check_range("config.json's head_dim", width, gt=0)
    scalar = number(config, "query_pre_attn_scalar", 256)
    return {} if scalar == width else {"temperature": math.sqrt(scalar / width)}


def written_query_scale(options: Mapping[str, Any]) -> dict[str, Any]:
    """What :func:`query_scale` reads."""
    width = options.get("head_dim") or options["dim"] // options["heads"]
    squared = options["temperature"] ** 2 * width
    whole = round(squared)  # as theirs is; another temperature is refused when it is read back
    return {"query_pre_attn_scalar": whole if math.isclose(squared, whole) else squared}


def rotary_dim(config: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """GPT-J says how many channels of a head are rotated."""
    return {
        "position.fraction": number(config, "rotary_dim", 64) * options["heads"] / options["dim"]
    }


def written_rotary_dim(options: Mapping[str, Any]) -> dict[str, Any]:
    """What :func:`rotary_dim` reads."""
    position = options["position"]
    fraction = position.get("fraction", 1.0) if isinstance(position, Mapping) else 1.0
    return {"rotary_dim": round(fraction * options["dim"] / options["heads"])}


def unscaled(config: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """T5 v1.1 and mT5 do not scale their outputs; ``transformers`` scales those of the former,
    unless one of two keys says no.
    """
    untied = config.get("tie_word_embeddings") is False
    if config.get("model_type") == "t5" and config.get("scale_decoder_outputs", not untied):
        raise BadOption(
            "config.json says neither tie_word_embeddings: false nor scale_decoder_outputs: false: "
            "transformers scales the outputs, tfzoo's t5_v1_1 does not"
        )
    return {}


def written_unscaled(options: Mapping[str, Any]) -> dict[str, Any]:
    """What :func:`unscaled` reads."""
    return {"tie_word_embeddings": False, "scale_decoder_outputs": False}


def vocabularies(config: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Marian's one vocabulary, or one for each language."""
    source = options["vocab_size"]
    target = config.get("decoder_vocab_size") or source
    tied = config.get("tie_word_embeddings", True)
    if not config.get("share_encoder_decoder_embeddings", True):
        tie = "target" if tied else "none"
        return {"vocab_size": target, "source_vocab_size": source, "tie": tie}
    if target != source or not tied:
        raise BadOption(
            f"decoder_vocab_size: {target}, vocab_size: {source}, tie_word_embeddings: {tied}, but "
            "by share_encoder_decoder_embeddings one matrix is source, target and output"
        )
    return {}


def written_vocabularies(options: Mapping[str, Any]) -> dict[str, Any]:
    """What :func:`vocabularies` reads."""
    return {
        "vocab_size": options["source_vocab_size"],
        "decoder_vocab_size": options["vocab_size"],
        "share_encoder_decoder_embeddings": options["tie"] in ("all", "embeddings"),
        "tie_word_embeddings": options["tie"] in ("all", "target"),
    }


ROTARY = ("rope_parameters", "rope_theta", "rope_scaling", "partial_rotary_factor")
READERS = {
    "unscaled": Reader(
        ("tie_word_embeddings", "scale_decoder_outputs"), unscaled, written_unscaled
    ),
    "vocabularies": Reader(
        ("share_encoder_decoder_embeddings", "decoder_vocab_size", "tie_word_embeddings"),
        vocabularies,
        written_vocabularies,
    ),
    "rotary": Reader(ROTARY, rotary, written_rotary),
    "neox_rotary": Reader((*ROTARY, "rotary_emb_base", "rotary_pct"), neox_rotary, written_rotary),
    "windows": Reader(("layer_types", "sliding_window"), windows, written_windows),
    "local_and_global": Reader(
        (
            *("layer_types", "rope_parameters", "local_attention", "global_attn_every_n_layers"),
            *("global_rope_theta", "local_rope_theta"),
        ),
        local_and_global,
        written_local_and_global,
    ),
    "query_scale": Reader(("query_pre_attn_scalar",), query_scale, written_query_scale),
    "rotary_dim": Reader(("rotary_dim",), rotary_dim, written_rotary_dim),
}
"""What the ``readers`` of a file name."""
