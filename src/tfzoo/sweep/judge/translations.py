"""Translations that ``tfzoo predict`` wrote into a run's folder, with sacreBLEU's statistics of
each sentence.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfzoo.base import adapters
from tfzoo.errors import BadData

SCRIPTS = {"ja-mecab": "[\u3040-\u30ff]", "ko-mecab": "[\uac00-\ud7af]", "zh": "[\u4e00-\u9fff]"}
"""sacreBLEU's tokenizers for languages without spaces, and letters by which to detect them."""


@dataclass(frozen=True)
class Translations:
    """The translations of one test set by one run, in the order of the set."""

    texts: tuple[str, ...]
    references: tuple[str, ...]

    @cached_property
    def statistics(self) -> NDArray[np.float32]:
        """``(sentences, 10)``: lengths, and matching and total n-grams of each order."""
        found = adapters.line_statistics(
            scorer(tokenizer(self.references)), self.texts, self.references
        )
        return np.array(found, np.float32)

    def bleu(self, counts: NDArray[np.float32]) -> NDArray[np.float64]:
        """BLEU of each draw; ``counts`` ``(draws, sentences)`` is how often a sentence is drawn."""
        metric = scorer(tokenizer(self.references))
        return np.array(
            [
                adapters.score_of_statistics(metric, sums)
                for sums in (counts @ self.statistics).tolist()
            ]
        )


def read_translations(folder: Path) -> dict[str, Translations]:
    """Translations by test set; ``.jsonl`` is preferred to ``.tsv``. Predictions of a classifier
    are ignored.

    Raises:
        BadData: a file cannot be read.
    """
    found = {}
    for path in sorted(
        (folder / "predictions").glob("*.*"), key=lambda path: path.suffix == ".jsonl"
    ):
        if path.suffix in (".tsv", ".jsonl"):
            try:
                rows = list(lines(path))
                texts, references = (
                    tuple(row[column] for row in rows) for column in ("translation", "reference")
                )
                if not all(isinstance(text, str) for text in (*texts, *references)):
                    raise ValueError("a row is incomplete")
                found[path.stem] = Translations(texts, references)
            except KeyError:
                continue
            except (OSError, ValueError, TypeError) as error:
                raise BadData(
                    f"{path} cannot be read as tfzoo predict writes it: {error}"
                ) from None
    return {name: translations for name, translations in found.items() if translations.texts}


def lines(path: Path) -> list[dict[str, Any]]:
    """The rows of a file of predictions."""
    with path.open(encoding="utf-8", newline="") as stream:
        if path.suffix == ".jsonl":
            return [json.loads(line) for line in stream.read().split("\n") if line]
        return list(
            csv.DictReader(
                stream.read().rstrip("\n").split("\n"), delimiter="\t", quoting=csv.QUOTE_NONE
            )
        )


@cache
def tokenizer(references: Sequence[str]) -> str:
    """sacreBLEU's tokenizer for the script of the references. The task chooses it by language."""
    text = "".join(references)
    letters = len(re.findall(r"\w", text))
    return next(
        (name for name, script in SCRIPTS.items() if len(re.findall(script, text)) > letters / 5),
        "13a",
    )


@cache
def scorer(tokenize: str) -> Any:
    """sacreBLEU's metric, as the task configures it."""
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(tokenize=tokenize)
