"""The attention maps of a task's model for one text, with their query and key tokens."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from tfzoo.blocks.mixer import Mixer
from tfzoo.blocks.transformer_layer import TransformerLayer
from tfzoo.contracts import Attention
from tfzoo.data.classification_batch import ClassificationBatch
from tfzoo.data.inference_batches import (
    OnTruncated,
    classification_batches,
    translation_batches,
    truncation,
    warn_truncated,
)
from tfzoo.data.parallel_batch import ParallelBatch
from tfzoo.data.tokenizer import Tokenizer
from tfzoo.errors import BadData, BadOption
from tfzoo.kinds import KINDS
from tfzoo.maps import attention_maps
from tfzoo.pages.attention import AttentionMap, AttentionMaps, Side
from tfzoo.search import search
from tfzoo.special_ids import BOS, EOS, PAD, UNK

if TYPE_CHECKING:
    from tfzoo.tasks.classification import ClassificationTask
    from tfzoo.tasks.task import Task
    from tfzoo.tasks.translation import TranslationTask

Tokens = Mapping[Side, tuple[list[str], list[str]]]
"""The query tokens and the key tokens of each side."""

SPECIAL = {PAD: "<pad>", UNK: "<unk>", BOS: "<bos>", EOS: "<eos>"}


T = TypeVar("T")


def translation_attention(task: TranslationTask, text: str) -> AttentionMaps:
    """The attention maps of one text: encoder, decoder and cross, each layer by layer. Those of the
    decoder are of the model's own translation, by the recipe's search::

        for one in task.attention("twenty plus two"):
            print(one.side, one.layer, one.weights.shape, one.queries, one.keys)

    A notebook's cell that ends in ``task.attention("...")`` shows them as a page. A text longer
    than the model's positions is truncated.

    Raises:
        BadData: the text is empty.
        BadOption: the model is not tfzoo's, or no layer has a map.

    Warns:
        UserWarning: names the layers without a map; or says that the text is truncated.
    """
    notes: list[str] = []

    def maps(batch: ParallelBatch) -> list[AttentionMaps]:
        model, source = task.model, batch.source
        ((best,),) = search(model, source, replace(task.search, n_best=1))
        # A translation that reached its limit ends with a token that the decoder has not read.
        read = [BOS, *(best.ids if best.finished else best.ids[:-1])]
        target = torch.tensor([read], device=source.device)
        inputs = token_strings(task.tokenizer.source, source[0].tolist())
        outputs = token_strings(task.tokenizer.target, read)
        tokens: Tokens = {
            "encoder": (inputs, inputs),
            "decoder": (outputs, outputs),
            "cross": (outputs, inputs),
        }
        found, _ = record(model, lambda: model.hidden(source, target), tokens)
        (translation,) = task.tokenizer.target.decode([best.ids])
        return [page_of(task, found, text, {"translation": translation}, notes)]

    check(task, text)
    limit, on_truncated = task.max_positions()[0], add_note(notes)
    batches = translation_batches(
        [text], task.tokenizer, max_length=limit, on_truncated=on_truncated
    )
    return task.in_order(batches, maps)[0]


def classification_attention(task: ClassificationTask, text: str) -> AttentionMaps:
    """The attention maps of one text, layer by layer::

        for one in task.attention("[MAX 4 3 ]"):
            print(one.layer, one.weights.shape, one.keys)

    A notebook's cell that ends in ``task.attention("...")`` shows them as a page. A text is
    truncated as in :meth:`classifications`.

    Raises:
        BadData: the text is empty.
        BadOption: the model is not tfzoo's, or no layer has a map.

    Warns:
        UserWarning: names the layers without a map; or says that the text is truncated.
    """
    notes: list[str] = []

    def maps(batch: ClassificationBatch) -> list[AttentionMaps]:
        tokens = token_strings(task.tokenizer.tokenizer, batch.tokens[0].tolist())
        sides: Tokens = {"encoder": (tokens, tokens)}
        found, (best,) = record(task.model, lambda: task.predict_batch(batch), sides)
        label = f"{best.label} (probability {best.probability:.3f})"
        return [page_of(task, found, text, {"label": label}, notes)]

    check(task, text)
    limit, on_truncated = task.max_length(), add_note(notes)
    batches = classification_batches(
        [text], task.tokenizer, max_length=limit, on_truncated=on_truncated
    )
    return task.in_order(batches, maps)[0]


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
        raise BadOption(f"attention: no layer has an attention map: {without}")
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
    # `decode` strips a text's first space. Two equal tokens show it, in front of the second.
    once = tokenizer.decode([[one] for one in ids])
    twice = tokenizer.decode([[one, one] for one in ids])
    texts = [pair[len(single) :] for single, pair in zip(once, twice, strict=True)]
    return [
        SPECIAL.get(one, text if text and "\N{REPLACEMENT CHARACTER}" not in text else f"<{one}>")
        for one, text in zip(ids, texts, strict=True)
    ]
