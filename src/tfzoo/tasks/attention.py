"""The attention maps of a task's model for one text, with the tokens that they are between."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from tfzoo.blocks.mixer import Mixer
from tfzoo.blocks.transformer_layer import TransformerLayer
from tfzoo.contracts import Attention
from tfzoo.data.classification_batch import ClassificationBatch
from tfzoo.data.inference_batches import classification_batches, translation_batches
from tfzoo.data.parallel_batch import ParallelBatch
from tfzoo.data.tokenizer import Tokenizer
from tfzoo.errors import BadData, BadOption
from tfzoo.maps import attention_maps
from tfzoo.search import search
from tfzoo.special_ids import BOS, EOS, PAD, UNK

if TYPE_CHECKING:
    from tfzoo.tasks.classification import ClassificationTask
    from tfzoo.tasks.task import Task
    from tfzoo.tasks.translation import TranslationTask

Side = Literal["encoder", "decoder", "cross"]
Tokens = Mapping[Side, tuple[list[str], list[str]]]
"""The query tokens and the key tokens of each side."""

SPECIAL = {PAD: "<pad>", UNK: "<unk>", BOS: "<bos>", EOS: "<eos>"}


@dataclass(frozen=True)
class AttentionMap:
    """The attention map of one layer for one text.

    Args:
        side: ``encoder`` or ``decoder``: self-attention; ``cross``: the decoder's attention to the
            encoder's output.
        layer: the index of the layer in its stack, from 0.
        weights: ``(h q k)``, fp32, on the CPU; what the attention's weighting gives, so that rows
            sum to 1 for a softmax.
        queries, keys: the token of each row and of each column, a space before a word included. A
            token of the decoder is one that it has read; from there it predicts the next.
    """

    side: Side
    layer: int
    weights: Tensor
    queries: list[str]
    keys: list[str]


def translation_attention(task: TranslationTask, text: str) -> list[AttentionMap]:
    """The attention maps of one text: encoder, decoder and cross, each layer by layer. Those of the
    decoder are of the model's own translation, by the recipe's search::

        for one in task.attention("twenty plus two"):
            print(one.side, one.layer, one.weights.shape, one.queries, one.keys)

    A text longer than the model's positions is truncated.

    Raises:
        BadData: the text is empty.
        BadOption: the model is not tfzoo's, or no layer has a map.

    Warns:
        UserWarning: names the layers without a map.
    """

    def maps(batch: ParallelBatch) -> list[list[AttentionMap]]:
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
        return [record(model, lambda: model.hidden(source, target), tokens)]

    check(task, text)
    limit = task.max_positions()[0]
    return task.in_order(translation_batches([text], task.tokenizer, max_length=limit), maps)[0]


def classification_attention(task: ClassificationTask, text: str) -> list[AttentionMap]:
    """The attention maps of one text, layer by layer::

        for one in task.attention("[MAX 4 3 ]"):
            print(one.layer, one.weights.shape, one.keys)

    A text is truncated as in :meth:`classifications`.

    Raises:
        BadData: the text is empty.
        BadOption: the model is not tfzoo's, or no layer has a map.

    Warns:
        UserWarning: names the layers without a map.
    """

    def maps(batch: ClassificationBatch) -> list[list[AttentionMap]]:
        tokens = token_strings(task.tokenizer.tokenizer, batch.tokens[0].tolist())
        return [record(task.model, lambda: task.logits(batch), {"encoder": (tokens, tokens)})]

    check(task, text)
    limits = filter(None, (task.max_positions()[0], task.max_trained_length))
    limit = min(limits, default=None)
    return task.in_order(classification_batches([text], task.tokenizer, max_length=limit), maps)[0]


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


def record(model: Any, run: Callable[[], object], tokens: Tokens) -> list[AttentionMap]:
    """The maps of the forward pass ``run()`` of one text, side by side and layer by layer. A
    warning names layers without one.

    Raises:
        BadOption: no layer has a map.
    """
    without = layers_without_map(model)
    if not any(isinstance(module, Attention) for module in model.modules()):
        raise BadOption(f"attention: no layer has an attention map: {without}")
    if without:
        warnings.warn(f"no attention map: {without}", stacklevel=6)
    with attention_maps(model) as maps:
        run()
    names = {module: name for name, module in model.named_modules()}
    return [
        AttentionMap(side, index, maps[names[found]][0][0].float().cpu(), *tokens[side])
        for side in tokens
        for index, sublayer in sublayers(model, side)
        if (found := attention_of(sublayer)) is not None
    ]


def layers_without_map(model: Any) -> str:
    """The layers that have something else in the place of self-attention, such as ``encoder layer 0
    (mixer gru)``; "" if there are none.
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
    """The text of each id, with the space before it. Special ids have names such as ``<eos>``; an
    id that is no character by itself, such as a byte of one, is its number in angle brackets.
    """
    # Decoding strips the first space of a text, so the second of two equal tokens shows its own.
    once = tokenizer.decode([[one] for one in ids])
    twice = tokenizer.decode([[one, one] for one in ids])
    texts = [pair[len(single) :] for single, pair in zip(once, twice, strict=True)]
    return [
        SPECIAL.get(one, text if text and "\N{REPLACEMENT CHARACTER}" not in text else f"<{one}>")
        for one, text in zip(ids, texts, strict=True)
    ]
