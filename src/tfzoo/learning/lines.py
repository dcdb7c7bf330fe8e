"""How texts become batches, and the answers to them lines, rows and pages."""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import Any, ClassVar, TypeVar

import lightning.pytorch as L
import torch
from torch import nn

from tfzoo.base.kinds import KINDS
from tfzoo.base.values import check_arguments, leaves
from tfzoo.contracts import Attention
from tfzoo.data.batches import OnTruncated, checked_lines, truncation, warn_truncated
from tfzoo.data.table import parts, title
from tfzoo.data.tokenizer import Tokenizer, token_texts
from tfzoo.errors import BadData, BadOption, BadRun
from tfzoo.models.mixer import Mixer
from tfzoo.models.transformer_layer import TransformerLayer
from tfzoo.plots.attention import AttentionMap, AttentionMaps, Side, attention_maps

Tokens = dict[Side, tuple[list[str], list[str]]]
"""The query tokens and the key tokens of each side."""

NAMED = ("eos", "bos", "unk", "mask", "cls", "pad")
"""The special ids that have names on pages; the first counts where they share an id."""

SHOWN = 5
"""The most labels of which a page shows the probability."""

T = TypeVar("T")
M = TypeVar("M", bound=nn.Module)


@dataclass(frozen=True)
class NoOptions:
    """The options of a task that has none."""


class Lines(L.LightningModule):
    """The part of a task that applies its model to texts. A task writes :meth:`answers_of`, and
    the class attributes without a value.
    """

    Answer: ClassVar[type]
    """The dataclass of the answer to one text. A field ``truncated`` says that the text is longer
    than the model reads. The first field is what ``tfzoo predict`` writes.
    """
    Options: ClassVar[type] = NoOptions
    """The dataclass of the options of :meth:`predict`, which the command has by the same names; its
    docstring describes each. It checks them.
    """
    about: ClassVar[str]
    """What ``tfzoo predict`` writes of a line, in a few words. It is read from the source without
    an import: write it as a literal.
    """
    input_hint: ClassVar[str] = ""
    """A sentence on what a text needs, for the page of ``tfzoo serve``."""
    line_batches: ClassVar[Callable[..., Iterable[Any]]]
    """Makes the batches of lines: a function with the arguments of
    :func:`tfzoo.data.batches.text_batches`.
    """
    model: Any
    tokenizer: Any

    def answers_of(self, batch: Any, options: Any = None) -> list[Any]:
        """The :attr:`Answer` to each text of a batch; ``truncated`` is set later. ``options`` are
        :attr:`Options`, None: as the recipe says. Where they ask for several answers to a text, a
        list of them stands in the place of the one.
        """
        raise NotImplementedError

    def references(self, batch: Any) -> Sequence[Any]:
        """What the answers should be, as far as the batch holds it."""
        return ()

    def output_line(self, answer: Any) -> str:
        """An answer as the line that ``tfzoo predict`` writes. Here: its first field."""
        return str(next(iter(vars(answer).values())))

    @property
    def text_names(self) -> list[str]:
        """The names of the texts that one answer is about: two where the model reads pairs."""
        return ["text"]

    def max_positions(self) -> tuple[int | None, int | None]:
        """The maximum number of source tokens and of target tokens; None: any number."""
        return (getattr(self.model, "max_positions", None),) * 2

    def max_length(self, options: Any = None) -> int | None:
        """The most tokens that are read of a text, special ones included; None: all."""
        return min((limit for limit in self.max_positions() if limit is not None), default=None)

    def predict(
        self,
        texts: Iterable[str | Sequence[str]],
        *,
        max_tokens: int = 4096,
        progress: Callable[[int], object] | None = None,
        on_truncated: OnTruncated = warn_truncated,
        **options: Any,
    ) -> list[Any]:
        """The :attr:`Answer` to each text, in order::

            task = tfzoo.load("runs/listops/1")
            for answer in task.predict(["[MAX 4 3 ]"]):
                print(answer.label, answer.probability)

        Args:
            texts: texts; or pairs, ``(first, second)`` or ``"first<TAB>second"``, where the model
                reads pairs. A text longer than :meth:`max_length` is truncated.
            max_tokens: maximum number of tokens of a batch.
            progress: called with the number of texts of each finished batch.
            on_truncated: called with the indices of truncated texts, if there are any, and the
                number of tokens that are read of each; by default a ``UserWarning`` counts them.
            options: those of :attr:`Options`. Where they ask for several answers to a text, a list
                of these stands in the place of the one.

        Raises:
            BadData: ``texts`` is one string.
            BadOption: an option that there is not, or out of its range.
            BadRun: a number in an answer is NaN.
        """
        check_arguments(self.Options, options)
        chosen, truncated = self.Options(**options), set[int]()

        def note(rows: list[int], tokens: int) -> None:
            truncated.update(rows)
            on_truncated(rows, tokens)

        batches = self.line_batches(
            texts, self.tokenizer, max_tokens, self.max_length(chosen), note
        )
        found = self.in_order(batches, lambda batch: self.answers_of(batch, chosen), progress)
        for answer in [one for row in truncated for one in several(found[row])]:
            answer.truncated = True
        return found

    @torch.no_grad()
    def in_order(
        self,
        batches: Iterable[Any],
        function: Callable[[Any], list[T]],
        progress: Callable[[int], object] | None = None,
    ) -> list[T]:
        """Apply ``function`` to each batch in evaluation mode, without gradients; return the
        results sorted by the items' ``index``. ``progress`` is called with the number of items of
        each finished batch. A BadRun where a number in a result is NaN.
        """
        found: dict[int, T] = {}
        training = self.training
        self.eval()
        try:
            for batch in batches:
                results = function(batch.to(self.device))
                each = [one for result in results for one in several(result)]
                plain = [vars(one) if is_dataclass(one) else one for one in each]
                if any(leaf != leaf for _, leaf in leaves(plain)):  # NaN alone
                    raise BadRun(
                        "the model gives NaN, so it has no answer: its training has diverged, or "
                        "its numbers are too large for their precision"
                    )
                found |= zip(batch.index, results, strict=True)
                if progress is not None:
                    progress(len(batch.index))
        finally:
            self.train(training)
        return [found[index] for index in sorted(found)]

    # Rows

    def row(self, text: str | None, answer: Any, reference: Any = None) -> dict[str, Any]:
        """A text, or both of a pair, with its answer, of None for an empty text, and its reference,
        as far as there is any: an object of ``tfzoo predict --format jsonl``.
        """
        names, texts = self.text_names, [] if text is None else [text]
        row = dict(zip(names, parts(texts[0]) if texts and len(names) > 1 else texts, strict=False))
        nothing: dict[str, Any] = dict.fromkeys(self.columns()[len(names) :])
        row |= nothing if answer is None else asdict(answer)
        if not row.get("truncated"):
            row.pop("truncated", None)
        return row if reference is None else {**row, "reference": reference}

    def columns(self) -> list[str]:
        """The keys of a :meth:`row` without its reference, where nothing is truncated."""
        answer = [one.name for one in fields(self.Answer) if one.name != "truncated"]
        return [*self.text_names, *answer]

    def rows(self, batch: Any) -> list[dict[str, Any]]:
        """A :meth:`row` for each item of a batch: what ``tfzoo score --predictions`` writes."""
        answers = self.answers_of(batch)
        nothing = [None] * len(answers)
        columns = batch.source_text or nothing, answers, self.references(batch) or nothing
        return [self.row(*one) for one in zip(*columns, strict=True)]

    def predictions(self, data: Any, name: str) -> list[dict[str, Any]]:
        """:meth:`rows` of a whole test set, in its order."""
        loader = data.test_dataloader()[data.test_names.index(name)]
        return self.in_order(loader, self.rows)

    # Pages

    def facts(self, answer: Any) -> dict[str, str]:
        """An answer as the lines of a page."""
        return {key: shown(one) for key, one in vars(answer).items() if key != "truncated"}

    def attention(self, text: str | Sequence[str]) -> AttentionMaps:
        """The attention maps of one text, or of a pair as :meth:`predict` takes it, by side and
        layer::

            for one in task.attention("twenty plus two"):
                print(one.side, one.layer, one.weights.shape, one.queries, one.keys)

        A notebook's cell that ends in ``task.attention("...")`` shows them as a page. The decoder
        of a translator reads the translation. A ``UserWarning`` names the layers without a map, and
        says whether the text is truncated (:meth:`max_length`).

        Raises:
            BadData: the text is empty, or not one text.
            BadOption: the model is not tfzoo's, or no layer has a map.
        """
        model, pairs = self.model, len(self.text_names) > 1
        (line,) = checked_lines([text], pairs)
        check_attention(self, line)
        notes: list[str] = []
        batches = self.line_batches(
            [line],
            self.tokenizer,
            max_length=self.max_length(),
            on_truncated=lambda rows, tokens: notes.append(truncation(len(rows), tokens)),
        )
        tokens: Tokens = {}
        with attention_maps(model) as found:
            (said,) = self.in_order(batches, lambda batch: [self.answer_with_tokens(batch, tokens)])
        names = {module: name for name, module in model.named_modules()}
        maps = [
            AttentionMap(side, index, found[names[attention]][-1][0].float().cpu(), *tokens[side])
            for side in tokens
            for index, sublayer in sublayers(model, side)
            if (attention := inside(sublayer, Attention)) is not None
        ]
        components = [
            f"{kind} {spec if isinstance(spec, str) else spec['name']}"
            for kind in KINDS
            if (spec := model.config.get(kind))
        ]
        facts = {**self.facts(said), "model": ", ".join(components)}
        if without := layers_without_map(model):
            notes.append(f"no attention map of {without}")
        for note in notes:
            warnings.warn(note, stacklevel=2)
        return AttentionMaps(maps, title(line) if pairs else line.strip(), facts=facts, notes=notes)

    def answer_with_tokens(self, batch: Any, tokens: Tokens) -> Any:
        """The :attr:`Answer` to a batch of one text. The last forward pass is the one whose maps
        are shown; its query and key tokens go into ``tokens``, by side. Here: of an encoder that
        reads ``batch.tokens``.
        """
        read = token_strings(self.tokenizer.tokenizer, batch.tokens[0].tolist())
        tokens["encoder"] = read, read
        (found,) = self.answers_of(batch)
        return found


def check_attention(task: Any, text: str) -> None:
    """Check that ``text`` is not empty, and that the task's model is tfzoo's and has a map."""
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
    """The layers whose mixer has no attention, such as ``encoder layer 0 (mixer gru)``."""
    without = [
        f"{side} layer {index} (mixer {mixer.entry.name if mixer else 'none'})"
        for side in ("encoder", "decoder")
        for index, sublayer in sublayers(model, side)
        for mixer in [inside(sublayer, Mixer)]
        if inside(sublayer, Attention) is None
    ]
    return ", ".join(without)


def sublayers(model: Any, side: str) -> list[tuple[int, Any]]:
    """The self-attention or cross-attention sublayers of a stack; None where a layer has none."""
    stack = getattr(model, "encoder" if side == "encoder" else "decoder", None)
    layers: Sequence[TransformerLayer] = () if stack is None else stack.layers
    kind = "cross_attention" if side == "cross" else "self_attention"
    return [(index, getattr(layer, kind)) for index, layer in enumerate(layers)]


def inside(sublayer: nn.Module | None, kind: type[M]) -> M | None:
    """The first module of a class in a sublayer; None if there is none."""
    modules = () if sublayer is None else sublayer.modules()
    return next((module for module in modules if isinstance(module, kind)), None)


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


def several(answer: T | list[T]) -> list[T]:
    """The answers to a text: one, or a list."""
    return answer if isinstance(answer, list) else [answer]


def shown(value: Any) -> str:
    """A value of an answer on a page.

    >>> shown({"a": 0.5, "b": 0.25}), shown(["x", "y"]), shown([])
    ('a 0.500 · b 0.250', 'x, y', 'none')
    """
    if isinstance(value, Mapping):
        more = len(value) - SHOWN
        pairs = [f"{key} {shown(one)}" for key, one in [*value.items()][:SHOWN]]
        return " · ".join(pairs) + (f" and {more} more" if more > 0 else "")
    if isinstance(value, list):
        return ", ".join(map(shown, value)) or "none"
    return f"{value:.3f}" if isinstance(value, float) else str(value)
