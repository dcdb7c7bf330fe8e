"""Causal language modelling: the probability of each token given those before it."""

from __future__ import annotations

import math
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import Any, ClassVar, Unpack

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from tfzoo.base.registry import register
from tfzoo.base.terminal import notify
from tfzoo.base.values import check_range
from tfzoo.data.batches import OnTruncated, row_lengths
from tfzoo.data.documents import DocumentBatch, DocumentData, prompt_batches
from tfzoo.errors import BadOption
from tfzoo.learning.attention import Record, token_strings
from tfzoo.learning.cross_entropy import cross_entropy, cross_entropy_of_logits
from tfzoo.learning.loss import constant_loss
from tfzoo.learning.published import generation_settings, name_unknown_settings
from tfzoo.learning.scoring import sums_by
from tfzoo.learning.task import OnProgress, Part, Reading
from tfzoo.learning.text_task import DocumentTask
from tfzoo.models.generation import check_options, generate, next_tokens
from tfzoo.models.language_model import LanguageModel

TRIED = 8
"""The most words of a text of which a continuation is shown."""


@dataclass(frozen=True)
class Continue:
    """How a text is continued.

    Args:
        max_new_tokens: the most tokens that are appended.
        temperature: divides the logits; 0: the most probable token.
        top_k, top_p: sample from the most probable tokens alone (:func:`tfzoo.generate`).
        stop: a text that ends the continuation, and is no part of it. With ``beam`` over 1, the
            continuation that search chose is cut there.
        seed: of sampling.
        beam: number of hypotheses of beam search.
        length_penalty: of the score of a hypothesis (:class:`tfzoo.Search`).

    Raises:
        BadOption: a number out of its range, or without effect; an empty ``stop``.
    """

    max_new_tokens: int = 64
    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    stop: str | None = None
    seed: int = 0
    beam: int = 1
    length_penalty: float | None = None

    def __post_init__(self) -> None:
        check_options(
            self.max_new_tokens,
            self.temperature,
            self.top_k,
            self.top_p,
            self.beam,
            self.length_penalty,
        )
        check_range("seed", self.seed, ge=0, lt=2**63, whole=True)
        if self.seed and not self.temperature:
            raise BadOption("seed is of what is sampled: set temperature over 0")
        if self.stop == "":
            raise BadOption("stop is an empty text, which would end every continuation at once")


@dataclass
class LanguageModelingAnswer:
    """The most probable continuation of a text, and whether only the last tokens of the text were
    read because it is longer than the model reads.
    """

    continuation: str
    truncated: bool = False


@register("task", "language_modeling")
class LanguageModelingTask(DocumentTask):
    """Training, evaluation and inference of a model that gives the probability of the next token.

    A batch is a :class:`~tfzoo.data.documents.DocumentBatch`.

    Args:
        model: a :class:`~tfzoo.LanguageModel` with the tokenizer's vocabulary size, or any module
            that maps ``tokens`` ``(b n)``, padded on the right, to logits ``(b n v)`` of the next
            token. One of another class than tfzoo's takes ``data.packed: false`` and continues no
            texts.
        tokenizer: ``DocumentData.vocabulary``: the tokenizer; it has no labels.
        optim: learning rate, schedule and label smoothing.
        compute: compilation of layers, activation checkpointing.
        seed: the random state of each training batch is derived from it.
    """

    Model: ClassVar[type[nn.Module]] = LanguageModel
    Data = DocumentData
    Batch = DocumentBatch
    line_batches: ClassVar[Callable[..., Iterable[Any]]] = staticmethod(prompt_batches)
    epilog = """\
For each input line, also an empty one, one line is written, in the same order: its continuation
alone, with its first space. Line breaks in it are written as \\n. Without --temperature and --beam
it is the most probable token each time.
"""
    about = "continue each line of text"
    input_hint = "The begin of a text."
    Answer = LanguageModelingAnswer
    pipeline_tag = "text-generation"
    published = "LanguageModel"
    monitor = "val/loss"
    higher_is_better: ClassVar[Mapping[str, bool]] = {
        "loss": False,
        "perplexity": False,
        "bits_per_byte": False,
    }

    def check(self, data: Any) -> None:
        """Check that the model can read the data.

        Raises:
            BadOption: as :meth:`Task.check`; or rows of training are packed, and a part of the
                model would let documents see each other.
        """
        super().check(data)
        if not getattr(data, "packed", False):
            return
        reads = None if self.foreign else self.model.decoder
        if reads is None or not reads.takes_any_mask or reads.leaky_norm is not None:
            what = self.foreign or "a part of this model"
            raise BadOption(
                f"{what} reads no mask that keeps documents in one row apart: set data.packed to "
                "false, so that each has its own row"
            )

    @classmethod
    def complete(cls, found: dict[str, Any], folder: Path) -> None:
        said = generation_settings(folder)
        if said.get("do_sample"):
            words = []
            for key, usual in (("temperature", 1.0), ("top_k", 50), ("top_p", 1.0)):
                value = said.get(key)
                value = value if isinstance(value, int | float) else usual
                words.append(f"--{key.replace('_', '-')} {value}")
            notify(
                f"{folder}: generate of transformers samples; tfzoo predict does "
                f"with {' '.join(words)}"
            )
        name_unknown_settings(folder, {**said, "do_sample": None})

    def hidden(self, batch: DocumentBatch) -> Tensor:
        """The last hidden state of each token that is no padding: ``(t d)``."""
        hidden = self.model.hidden(
            batch.tokens,
            mask=batch.mask(),
            positions=None if batch.part is None else batch.positions,
        )
        return hidden.flatten(0, 1).index_select(0, batch.non_padding)  # type: ignore[no-any-return]

    def logits(self, batch: DocumentBatch) -> Tensor:
        """The logits of each of ``batch.labels``: ``(t v)``."""
        if not self.foreign:
            return self.model.logits(self.hidden(batch))  # type: ignore[no-any-return]
        return self.foreign_logits(batch.tokens, batch.non_padding)

    def loss(self, batch: DocumentBatch) -> tuple[Tensor, Tensor, int]:
        """The label-smoothed loss, summed over tokens; the cross entropy of each token ``(t)``, in
        nats; and their number.
        """
        labels, smoothing, model = batch.labels, self.optim.label_smoothing, self.model
        pad = self.tokenizer.special.unpredicted
        if self.foreign or model.output_bias is not None:
            loss = cross_entropy_of_logits(self.logits(batch), labels, smoothing, pad)
        else:
            loss = cross_entropy(
                self.hidden(batch), model.output_weight, labels, smoothing, pad, model.logit_cap
            )
        return *loss, len(labels)

    def training_step(self, batch: DocumentBatch, batch_idx: int) -> Tensor:
        loss, nll, tokens = self.loss(batch)
        self.log_training({"train/perplexity": nll.mean().exp()}, tokens)
        return self.summed(loss, tokens)

    def score(self, batch: DocumentBatch) -> tuple[Any, ...]:
        with self.throughput.timed(self.device):
            loss, nll, tokens = self.loss(batch)
        self.throughput.items += tokens
        sums = sums_by(batch.owner, len(batch.index), nll, torch.ones_like(nll))
        return loss, tokens, *sums, torch.tensor([*map(size_of, batch.source_text)])

    def compute_scores(self, nll: Tensor, tokens: Tensor, size: Tensor) -> dict[str, Tensor]:
        """``perplexity``, ``exp`` of the mean cross entropy of a token; and ``bits_per_byte``, the
        sum of all cross entropies in bits over the bytes of the documents in UTF-8, each with its
        line end, which EOS stands for. The ``loss`` is the mean of a token in nats.
        """
        bits = nll.sum() / math.log(2)
        return {"perplexity": (nll.sum() / tokens.sum()).exp(), "bits_per_byte": bits / size.sum()}

    def baselines(self, data: Any, name: str) -> Mapping[str, Mapping[str, float]]:
        """Bits per byte of the frequencies of tokens in training, and of the data set's own."""
        sets = data.sets
        train, test = (self._frequencies(sets[one]) for one in ("train", name))
        p = (train + 1) / (train + 1).sum()
        size = sum(map(size_of, (sets[name].lines[row] for row in set(sets[name].document))))
        found = {"unigram": float(-(test * np.log2(p)).sum()) / size}
        if hasattr(data.built_in, "bits_per_byte"):
            found |= data.built_in.bits_per_byte(data.splits[name])
        return {"bits_per_byte": found}

    def constant_loss(self, data: Any) -> float:
        found = torch.from_numpy(self._frequencies(data.sets["val"]))
        return constant_loss(found, self.optim.label_smoothing, self.tokenizer.special.unpredicted)

    def _frequencies(self, documents: Any) -> NDArray[np.int64]:
        """How often each token of the vocabulary is to be predicted: ``(v)``."""
        found = np.bincount(documents.sequences.ids, minlength=len(self.tokenizer.tokenizer))
        found[self.tokenizer.special.eos] = documents.documents
        return found

    def prediction_columns(self, batch: DocumentBatch) -> Mapping[str, Sequence[Any]]:
        logits = self.logits(batch)
        dtype = torch.promote_types(logits.dtype, torch.float32)
        nll = F.cross_entropy(logits.to(dtype), batch.labels, reduction="none")
        (each,) = sums_by(batch.owner, len(batch.index), nll / math.log(2))
        bits = [
            one / size_of(text) for one, text in zip(each.tolist(), batch.source_text, strict=True)
        ]
        return {"text": batch.source_text, "bits_per_byte": bits}

    def continuations(
        self,
        prompts: Iterable[str],
        options: Continue | None = None,
        *,
        max_tokens: int = 4096,
        progress: OnProgress | None = None,
        on_truncated: OnTruncated | None = None,
        **changes: Any,
    ) -> list[str]:
        """What follows each text, in order::

            task.continuations(["the dogs that the cat"], temperature=0.8, top_p=0.9)

        Args:
            prompts: texts; one without a token is continued from the beginning of a document. Where
                a text and its continuation have more tokens than the model's positions, the last
                tokens of the text are read.
            options: how; ``changes`` replace some of them.
            max_tokens: maximum number of tokens of prompts in a batch, each counted ``beam`` times.
            progress: called with the number of texts of each finished batch.
            on_truncated: called with the indices of truncated texts, if there are any, and the
                number of tokens that are read of each; None: a ``UserWarning`` counts them.

        Raises:
            BadOption: an option out of range; the model is not tfzoo's.
            BadData: ``prompts`` is one string.
        """
        options = replace(options or Continue(), **changes)
        batches = self._prompts(prompts, options, max_tokens, on_truncated)
        random = torch.Generator(self.device).manual_seed(options.seed)
        continued = self._sampled if options.beam == 1 else self._searched
        return self.in_order(batches, lambda one: continued(one, options, random), progress)

    def continuation(
        self,
        prompt: str,
        options: Continue | None = None,
        *,
        on_truncated: OnTruncated | None = None,
        **changes: Any,
    ) -> Iterator[str]:
        """What follows one text, in pieces as they come::

            for piece in task.continuation("the dogs that the cat", temperature=0.8):
                print(piece, end="", flush=True)

        Characters of which a token is missing, and what may be the begin of ``stop``, wait. Beams
        have one piece. Arguments and errors are those of :meth:`continuations`.
        """
        options = replace(options or Continue(), **changes)
        if options.beam > 1:
            yield from self.continuations([prompt], options, on_truncated=on_truncated)
            return
        (batch,) = self._prompts([prompt], options, on_truncated=on_truncated)
        random = torch.Generator(self.device).manual_seed(options.seed)
        written = text = ""
        training = self.training
        self.eval()
        try:
            for read, new in self._steps(batch.to(self.device), options, random):
                (text,) = self._cut(self._texts(read, new), options)
                sure = text.rstrip("\N{REPLACEMENT CHARACTER}")
                sure = sure[: len(sure) - begun(options.stop or "", sure)]
                yield sure[len(written) :]
                written = sure if len(sure) > len(written) else written
        finally:
            self.train(training)
        yield text[len(written) :]

    def _prompts(
        self,
        prompts: Iterable[str],
        options: Continue,
        max_tokens: int = 4096,
        on_truncated: OnTruncated | None = None,
    ) -> Iterator[DocumentBatch]:
        if self.foreign:
            raise BadOption(f"{self.foreign}, which is not tfzoo's, continues no texts")
        limit = self.max_positions()[1]
        room = None if limit is None else limit - options.max_new_tokens + 1
        if room is not None and room < 1:
            raise BadOption(
                f"max_new_tokens {options.max_new_tokens:,}, but the model has {limit:,} positions"
            )
        tokens = max(1, max_tokens // options.beam)
        return prompt_batches(prompts, self.tokenizer, tokens, room, on_truncated)

    def _ids_of(self, batch: DocumentBatch) -> list[list[int]]:
        """The ids of each prompt."""
        lengths = row_lengths(batch.tokens, batch.lengths)
        return [row[:n] for row, n in zip(batch.tokens.tolist(), lengths, strict=True)]

    def _searched(
        self, batch: DocumentBatch, options: Continue, random: torch.Generator
    ) -> list[str]:
        special = self.tokenizer.special
        new = generate(
            self.model,
            batch.tokens,
            options.max_new_tokens,
            mask=batch.mask(),
            stop=special.ends,
            pad=special.pad,
            beam=options.beam,
            length_penalty=options.length_penalty,
        )
        return self._cut(self._texts(self._ids_of(batch), new.tolist()), options)

    def _sampled(
        self, batch: DocumentBatch, options: Continue, random: torch.Generator
    ) -> list[str]:
        *_, (read, new) = self._steps(batch, options, random)
        return self._cut(self._texts(read, new), options)

    def _steps(
        self, batch: DocumentBatch, options: Continue, random: torch.Generator
    ) -> Iterator[tuple[list[list[int]], list[list[int]]]]:
        """After each step, the tokens that were read, and the new ones, of each text."""
        special = self.tokenizer.special
        read = self._ids_of(batch)
        new: list[list[int]] = [[] for _ in read]
        open_rows = {*range(len(read))}
        columns = next_tokens(
            self.model,
            batch.tokens,
            options.max_new_tokens,
            mask=batch.mask(),
            temperature=options.temperature,
            top_k=options.top_k,
            top_p=options.top_p,
            stop=special.ends,
            pad=special.pad,
            generator=random,
        )
        for column in columns:
            tokens = column.tolist()
            for row in open_rows:
                new[row].append(tokens[row])
            open_rows -= {row for row in open_rows if tokens[row] in special.ends}
            if options.stop is not None:
                rows = sorted(open_rows)
                texts = self._texts([read[row] for row in rows], [new[row] for row in rows])
                open_rows -= {
                    row for row, text in zip(rows, texts, strict=True) if options.stop in text
                }
            yield read, new
            if not open_rows:
                return

    def _cut(self, texts: list[str], options: Continue) -> list[str]:
        return texts if options.stop is None else [one.split(options.stop)[0] for one in texts]

    def _texts(self, read: list[list[int]], new: list[list[int]]) -> list[str]:
        """The text that new tokens add."""
        decode = self.tokenizer.tokenizer.decode
        before, after = decode(read), decode([a + b for a, b in zip(read, new, strict=True)])
        return [added(*texts) for texts in zip(before, after, strict=True)]

    def to_try(self, text: str) -> str:
        words = text.split()
        return " ".join(words[: min(len(words) // 2 + 1, TRIED)])

    def answers(self, texts: Iterable[Any]) -> list[LanguageModelingAnswer]:
        truncated: set[int] = set()
        found = self.continuations(
            texts, self._served(), on_truncated=lambda rows, _: truncated.update(rows)
        )
        return [LanguageModelingAnswer(text, row in truncated) for row, text in enumerate(found)]

    def stream(self, text: str) -> Iterator[str | LanguageModelingAnswer]:
        truncated: list[Sequence[int]] = []
        pieces = []
        for piece in self.continuation(
            text, self._served(), on_truncated=lambda rows, _: truncated.append(rows)
        ):
            pieces.append(piece)
            if piece:
                yield piece
        yield LanguageModelingAnswer("".join(pieces), bool(truncated))

    def _served(self) -> Continue:
        """How ``tfzoo serve`` continues a text: half of the positions are the text's."""
        options, limit = Continue(), self.max_positions()[1]
        most = options.max_new_tokens if limit is None else max(limit // 2, 1)
        return replace(options, max_new_tokens=min(options.max_new_tokens, most))

    def facts(self, answer: LanguageModelingAnswer) -> dict[str, str]:
        return {"continuation": answer.continuation}

    def record_attention(
        self, batch: DocumentBatch, record: Record, answer: LanguageModelingAnswer | None
    ) -> LanguageModelingAnswer:
        tokens = token_strings(self.tokenizer.tokenizer, batch.tokens[0].tolist())
        record(lambda: self.hidden(batch), {"decoder": (tokens, tokens)})
        return answer or self.answers(batch.source_text)[0]

    @classmethod
    def add_arguments(cls, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        default = Continue()
        for name, kind, metavar, text in (
            ("max-new-tokens", int, "N", "most tokens of a continuation (default: %(default)s)"),
            ("temperature", float, "T", "sample from logits / T; 0: the most probable token"),
            ("top-k", int, "K", "sample from the K most probable tokens"),
            ("top-p", float, "P", "sample from the fewest tokens of probability P together"),
            ("stop", str, "TEXT", "end a continuation before this text"),
            ("seed", int, "N", "of sampling (default: %(default)s)"),
            ("beam", int, "N", "hypotheses of beam search; 1: none (default: %(default)s)"),
            ("length-penalty", float, "A", "alpha of the beams' length penalty (default: 0.6)"),
        ):
            value = getattr(default, name.replace("-", "_"))
            parser.add_argument(f"--{name}", type=kind, metavar=metavar, default=value, help=text)

    @classmethod
    def check_arguments(cls, given: Namespace) -> None:
        options_of(given)

    def output_lines(
        self, lines: Sequence[str], given: Namespace, **reading: Unpack[Reading]
    ) -> Iterator[str]:
        options, on_truncated = options_of(given), reading.get("on_truncated")
        if len(lines) == 1:
            for piece in self.continuation(lines[0], options, on_truncated=on_truncated):
                yield Part(on_one_line(piece))
            yield ""
            return
        for text in self.continuations(lines, options, **reading):
            yield on_one_line(text)


def options_of(given: Namespace) -> Continue:
    """The options of ``tfzoo predict``."""
    return Continue(**{name: getattr(given, name) for name in vars(Continue())})


def on_one_line(text: str) -> str:
    """A text with its line breaks written as ``\\n``."""
    return text.replace("\r", "\\r").replace("\n", "\\n")


def begun(stop: str, text: str) -> int:
    """How many characters at the end of a text may be the begin of ``stop``.

    >>> begun("end.", "the en"), begun("end.", "the"), begun("", "the")
    (2, 1, 0)
    """
    return next((n for n in range(len(stop) - 1, 0, -1) if text.endswith(stop[:n])), 0)


def added(before: str, after: str) -> str:
    """What a longer text has that a shorter one does not. A character of several tokens may begin
    in ``before``, where it is decoded to another one.
    """
    pairs = zip(before, after, strict=False)
    return after[sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs)) :]


def size_of(document: str) -> int:
    """The bytes of a document in UTF-8, with its line end."""
    return len(document.encode()) + 1
