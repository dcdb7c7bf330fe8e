"""The attention maps of a task's model for one text, with their query and key tokens."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from tfzoo.base.kinds import KINDS
from tfzoo.contracts import Attention
from tfzoo.data.inference_batches import OnTruncated, truncation, warn_truncated
from tfzoo.data.tokenizer import Tokenizer, token_texts
from tfzoo.errors import BadData, BadOption
from tfzoo.learning.task import Task
from tfzoo.models.mixer import Mixer
from tfzoo.models.transformer_layer import TransformerLayer
from tfzoo.plots.maps import attention_maps
from tfzoo.plots.pages.attention import AttentionMap, AttentionMaps, Side

Tokens = Mapping[Side, tuple[list[str], list[str]]]
"""The query tokens and the key tokens of each side."""

NAMED = ("pad", "eos", "bos", "unk", "mask", "cls")
"""The special ids that have names on pages; the first counts where they share an id."""


T = TypeVar("T")


def add_note(notes: list[str]) -> OnTruncated:
    """Return a function that warns of a truncated text, and adds the same to ``notes``."""

    def on_truncated(rows: list[int], tokens: int) -> None:
        warn_truncated(rows, tokens)
        notes.append(truncation(len(rows), tokens))

    return on_truncated


def check(task: Task, text: str) -> None:
    """Check that ``text`` is one text, and that the task's model is tfzoo's.

    Raises:
        BadData, BadOption: it is not.
    """
    if not isinstance(text, str):
        raise BadData(f"attention takes one text, a string, not {type(text).__name__}")
    if not text.strip():
        raise BadData("attention: the text is empty; give a sentence")
    if task.foreign:
        raise BadOption(
            f"attention: the layers of {task.foreign}, which is not tfzoo's, are not known; "
            "tfzoo.attention_maps(model) records the maps of any forward pass"
        )


def record(model: Any, run: Callable[[], T], tokens: Tokens) -> tuple[list[AttentionMap], T]:
    """Call ``run()``, a forward pass of one text. Return its maps, ordered by side and layer, and
    the result of the call. A warning names the layers without a map.

    Raises:
        BadOption: no layer has a map.
    """
    without = layers_without_map(model)
    if not any(isinstance(module, Attention) for module in model.modules()):
        raise BadOption(f"attention: no layer has an attention map: {without or 'there are none'}")
    if without:
        warnings.warn(f"no attention map: {without}", stacklevel=6)
    with attention_maps(model) as maps:
        result = run()
    names = {module: name for name, module in model.named_modules()}
    found = [
        AttentionMap(side, index, maps[names[attention]][0][0].float().cpu(), *tokens[side])
        for side in tokens
        for index, sublayer in sublayers(model, side)
        if (attention := attention_of(sublayer)) is not None
    ]
    return found, result


def page_of(
    task: Task,
    maps: list[AttentionMap],
    text: str,
    found: Mapping[str, str],
    notes: Sequence[str],
) -> AttentionMaps:
    """The maps with the lines that a page shows above them: ``found``, the model's components,
    ``notes``, and the layers without a map.
    """
    config = task.model.config
    parts = [
        f"{kind} {spec if isinstance(spec, str) else spec['name']}"
        for kind in KINDS
        if (spec := config.get(kind))
    ]
    facts = {**found, "model": ", ".join(parts)} if parts else found
    without = layers_without_map(task.model)
    notes = [*notes, *([f"no attention map of {without}"] if without else [])]
    return AttentionMaps(maps, text.strip(), facts=facts, notes=notes)


def layers_without_map(model: Any) -> str:
    """The layers whose mixer has no attention, such as ``encoder layer 0 (mixer gru)``; "" if there
    are none.
    """
    without = [
        f"{side} layer {index} ({_mixer(sublayer)})"
        for side in ("encoder", "decoder")
        for index, sublayer in sublayers(model, side)
        if attention_of(sublayer) is None
    ]
    return ", ".join(without)


def sublayers(model: Any, side: str) -> list[tuple[int, Any]]:
    """The self-attention sublayers of one stack, or the cross-attention sublayers; None where a
    layer has no such sublayer.
    """
    stack = getattr(model, "encoder" if side == "encoder" else "decoder", None)
    layers: Sequence[TransformerLayer] = () if stack is None else stack.layers
    kind = "cross_attention" if side == "cross" else "self_attention"
    return [(index, getattr(layer, kind)) for index, layer in enumerate(layers)]


def attention_of(sublayer: Any) -> Attention | None:
    """The attention inside a sublayer; None if there is none."""
    modules = () if sublayer is None else sublayer.modules()
    return next((module for module in modules if isinstance(module, Attention)), None)


def _mixer(sublayer: Any) -> str:
    modules = () if sublayer is None else sublayer.modules()
    names = (module.entry.name for module in modules if isinstance(module, Mixer))
    return f"mixer {next(names, 'none')}"


def token_strings(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """The text of each id, with its leading space. Special ids have names such as ``<eos>``. An id
    that decodes to a part of a character, such as a byte, is shown as its number: ``<137>``.
    """
    texts = token_texts(tokenizer, ids)
    special = {getattr(tokenizer.special, name): f"<{name}>" for name in reversed(NAMED)}
    return [
        special.get(one, text if text and "\N{REPLACEMENT CHARACTER}" not in text else f"<{one}>")
        for one, text in zip(ids, texts, strict=True)
    ]
