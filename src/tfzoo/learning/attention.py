"""The attention maps of a task's model for one text, with their query and key tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfzoo.base.kinds import KINDS
from tfzoo.contracts import Attention
from tfzoo.data.batches import pair_lines, truncation
from tfzoo.data.table import title
from tfzoo.data.tokenizer import Tokenizer, token_texts
from tfzoo.errors import BadData, BadOption
from tfzoo.models.mixer import Mixer
from tfzoo.models.transformer_layer import TransformerLayer
from tfzoo.plots.attention import AttentionMap, AttentionMaps, Side, attention_maps

Tokens = dict[Side, tuple[list[str], list[str]]]
"""The query tokens and the key tokens of each side."""

NAMED = ("eos", "bos", "unk", "mask", "cls", "pad")
"""The special ids that have names on pages; the first counts where they share an id."""


def page_of(task: Any, text: str | Sequence[str]) -> AttentionMaps:
    """The maps of one text, which :meth:`Task.answer_with_tokens` reads, ordered by side and layer,
    with the lines that a page shows above them: what the task makes of the text; the model's
    components; notes.

    Raises:
        BadData, BadOption: as :meth:`Task.attention`.
    """
    model, pairs = task.model, len(task.text_names) > 1
    line: Any = pair_lines([text])[0] if pairs else text
    check(task, line)
    notes: list[str] = []
    batches = task.line_batches(
        [line],
        task.tokenizer,
        max_length=task.max_length(),
        on_truncated=lambda rows, tokens: notes.append(truncation(len(rows), tokens)),
    )
    tokens: Tokens = {}
    with attention_maps(model) as found:
        (said,) = task.in_order(batches, lambda batch: [task.answer_with_tokens(batch, tokens)])
    names = {module: name for name, module in model.named_modules()}
    maps = [
        AttentionMap(side, index, found[names[attention]][-1][0].float().cpu(), *tokens[side])
        for side in tokens
        for index, sublayer in sublayers(model, side)
        if (attention := attention_of(sublayer)) is not None
    ]
    parts = [
        f"{kind} {spec if isinstance(spec, str) else spec['name']}"
        for kind in KINDS
        if (spec := model.config.get(kind))
    ]
    facts = task.facts(said) | ({"model": ", ".join(parts)} if parts else {})
    if without := layers_without_map(model):
        notes.append(f"no attention map of {without}")
    return AttentionMaps(maps, title(line) if pairs else line.strip(), facts=facts, notes=notes)


def check(task: Any, text: object) -> None:
    """Check that ``text`` is one text, and that the task's model is tfzoo's and has a map.

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
    if not any(isinstance(module, Attention) for module in task.model.modules()):
        without = layers_without_map(task.model) or "there are none"
        raise BadOption(f"attention: no layer has an attention map: {without}")


def layers_without_map(model: Any) -> str:
    """The layers whose mixer has no attention, such as ``encoder layer 0 (mixer gru)``; "" if there
    are none.
    """
    without = [
        f"{side} layer {index} (mixer {mixer_of(sublayer)})"
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


def mixer_of(sublayer: Any) -> str:
    """The name of its mixer."""
    modules = () if sublayer is None else sublayer.modules()
    return next((module.entry.name for module in modules if isinstance(module, Mixer)), "none")


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
