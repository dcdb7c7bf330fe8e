"""Translation: a Transformer, its loss, and the scores of what it writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

from torch import Tensor, nn

from tfzoo.data.batch import Pairs
from tfzoo.data.tokenizer import Languages
from tfzoo.data.translation import TranslationData, translation_batches
from tfzoo.models.start import start
from tfzoo.models.transformer import Transformer
from tfzoo.search import Search, search
from tfzoo.tasks.cross_entropy import cross_entropy
from tfzoo.tasks.metrics import TranslationScores
from tfzoo.tasks.optim import Optim
from tfzoo.tasks.task import Task

EXAMPLES = 4


@dataclass(frozen=True)
class Translation:
    """A sentence and its score: the log probability that search ranks by, divided by its length penalty."""

    text: str
    score: float


class TranslationTask(Task):
    """Trains a :class:`~tfzoo.Transformer` to translate, scores it, and translates.

    Args:
        model: its vocabularies are the tokenizer's.
        tokenizer: the tokenizers of both languages, as :class:`~tfzoo.TranslationData` makes them.
        optim: learning rate, schedule and label smoothing.
        search: how translations are decoded, at validation and test too.
        seed: of the random states of training steps.
    """

    name: ClassVar[str] = "translation"
    Model: ClassVar[type[nn.Module]] = Transformer
    Data = TranslationData
    model: Transformer

    def __init__(
        self,
        model: Transformer,
        tokenizer: Languages,
        *,
        optim: Optim | None = None,
        search: Search | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(model, optim, seed)
        self.tokenizer = tokenizer
        self.search = search or Search()
        sizes = ("vocab_size", "source_vocab_size")  # the tokenizer's, whenever the model is built again
        self.recipe["model"] = {key: value for key, value in model.config.items() if key not in sizes}
        self.recipe["search"] = asdict(self.search)
        self.scores = nn.ModuleList()
        self._examples: dict[int, tuple[str, str, str]] = {}

    @classmethod
    def build(cls, recipe: Mapping[str, Any], tokenizer: Languages) -> TranslationTask:
        source_size = None if tokenizer.joint else len(tokenizer.source)
        model = Transformer(vocab_size=len(tokenizer.target), source_vocab_size=source_size, **recipe.get("model", {}))
        seed = recipe.get("seed", 0)
        start(model, seed)
        optim, how = Optim(**recipe.get("optim", {})), Search(**recipe.get("search", {}))
        task = cls(model, tokenizer, optim=optim, search=how, seed=seed)
        task.recipe = dict(recipe)
        return task

    def tokenizer_state(self) -> dict[str, Any]:
        return self.tokenizer.state()

    @classmethod
    def restore_tokenizer(cls, state: Mapping[str, Any]) -> Languages:
        return Languages.restore(state)

    def loss(self, batch: Pairs) -> tuple[Tensor, Tensor, int]:
        """The smoothed loss and the cross entropy, summed over the real tokens, in nats, and how many these are."""
        source_padding = "right" if batch.source_padding else "none"
        target_padding = "right" if batch.target_padding else "none"
        inputs, wanted = batch.target[:, :-1], batch.target[:, 1:].flatten()
        hidden = self.model.hidden(batch.source, inputs, source_padding=source_padding, target_padding=target_padding)  # type: ignore[arg-type]
        # Only real tokens are worth a column of logits.
        hidden, wanted = hidden.flatten(0, 1).index_select(0, batch.real), wanted.index_select(0, batch.real)
        smoothed, nll = cross_entropy(hidden, self.model.output_weight, wanted, self.optim.label_smoothing, self.model.pad)
        return smoothed, nll, len(batch.real)

    def training_step(self, batch: Pairs, batch_idx: int) -> Tensor:
        smoothed, nll, tokens = self.loss(batch)
        loss = smoothed / tokens
        self.log_training({"train/loss": loss.detach(), "train/perplexity": (nll / tokens).exp()}, tokens)
        return loss

    def on_validation_start(self) -> None:
        self._start_scoring(1)

    def on_test_start(self) -> None:
        self._start_scoring(max(len(self._test_names()), 1))

    def validation_step(self, batch: Pairs, batch_idx: int, dataloader_idx: int = 0) -> None:
        self._score(batch, dataloader_idx)

    def test_step(self, batch: Pairs, batch_idx: int, dataloader_idx: int = 0) -> None:
        self._score(batch, dataloader_idx)

    def on_validation_epoch_end(self) -> None:
        self.log_dict({f"val/{name}": value for name, value in self._results(0).items()}, prog_bar=True)
        self._show_examples()

    def on_test_epoch_end(self) -> None:
        names = self._test_names()
        for index in range(len(self.scores)):
            # One set is the test set, and so is one of that name among others.
            prefix = "test" if len(names) <= 1 or names[index] == "test" else f"test/{names[index]}"
            self.log_dict({f"{prefix}/{name}": value for name, value in self._results(index).items()})

    def predict_step(self, batch: Pairs, batch_idx: int, dataloader_idx: int = 0) -> list[str]:
        return self._decode(batch.source, replace(self.search, n_best=1))

    def translate(self, lines: Sequence[str], search: Search | None = None, *, max_tokens: int = 4096) -> list[str]:
        """The best translation of each line, in order; batches hold at most ``max_tokens`` source tokens."""
        return [best[0].text for best in self.translations(lines, search, max_tokens=max_tokens)]

    def translations(
        self, lines: Sequence[str], search: Search | None = None, *, max_tokens: int = 4096, progress: Callable[[int], object] | None = None
    ) -> list[list[Translation]]:
        """The ``n_best`` translations of each line, best first; ``progress`` is told how many lines each batch finished."""
        found: list[list[Translation]] = [[] for _ in lines]
        training = self.training
        self.eval()
        for batch in translation_batches(lines, self.tokenizer, max_tokens=max_tokens, longest=self.model.encoder.longest):
            for index, hypotheses in zip(batch.index, self._search(batch.source.to(self.device), search or self.search), strict=True):
                found[index] = hypotheses
            if progress is not None:
                progress(len(batch.index))
        self.train(training)
        return found

    def _search(self, source: Tensor, how: Search) -> list[list[Translation]]:
        found = search(self.model, source, how)
        texts = iter(self.tokenizer.target.decode([hypothesis.ids for best in found for hypothesis in best]))
        return [[Translation(next(texts), hypothesis.score) for hypothesis in best] for best in found]

    def _decode(self, source: Tensor, how: Search) -> list[str]:
        return [best[0].text for best in self._search(source, how)]

    def _test_names(self) -> list[str]:
        return list(getattr(getattr(self.trainer, "datamodule", None), "test_names", []))

    def _start_scoring(self, sets: int) -> None:
        language = self.tokenizer.target_language
        self.scores = nn.ModuleList(TranslationScores(language) for _ in range(sets)).to(self.device)
        self._examples = {}

    def _score(self, batch: Pairs, dataloader: int) -> None:
        while len(self.scores) <= dataloader:  # loaders of one's own have no names
            self.scores.append(TranslationScores(self.tokenizer.target_language).to(self.device))
        smoothed, nll, tokens = self.loss(batch)
        texts = self._decode(batch.source, replace(self.search, n_best=1))
        self.scores[dataloader].update(texts, batch.target_text, smoothed, nll, tokens)  # type: ignore[operator]  # a TranslationScores
        for index, *example in zip(batch.index, batch.source_text, texts, batch.target_text, strict=True):
            if index < EXAMPLES:  # the same sentences each time
                self._examples[index] = (example[0], example[1], example[2])

    def _results(self, index: int) -> dict[str, Tensor]:
        results: dict[str, Tensor] = self.scores[index].compute()  # type: ignore[operator]
        return results

    def _show_examples(self) -> None:
        examples = [self._examples[index] for index in sorted(self._examples)]
        for source, translation, reference in examples:
            right = "right" if translation == reference else "wrong"
            self.print(f"  {source}\n    -> {translation}  ({right})" + ("" if right == "right" else f"\n    =  {reference}"))
        for logger in self.loggers:
            if self.trainer.is_global_zero and hasattr(logger, "log_table"):
                rows: list[Any] = [list(row) for row in examples]
                logger.log_table("val/examples", columns=["source", "translation", "reference"], data=rows)
