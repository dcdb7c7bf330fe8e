"""The translations of a test set that ``tfzoo predict`` wrote into a run's folder, with sacreBLEU's
statistics of each sentence.
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

from tfzoo import _adapters
from tfzoo.errors import BadData

SCRIPTS = {"ja-mecab": "[\u3040-\u30ff]", "ko-mecab": "[\uac00-\ud7af]", "zh": "[\u4e00-\u9fff]"}
"""sacreBLEU's tokenizers for text without spaces or with joined words, by letters that only such
text has many of.
"""


@dataclass(frozen=True)
class Translations:
    """Of one test set by one run, in the set's order."""

    texts: tuple[str, ...]
    references: tuple[str, ...]

    @cached_property
    def statistics(self) -> NDArray[np.float32]:
        """``(sentences, 10)``: lengths, and n-grams that match and that there are."""
        found = _adapters.line_statistics(
            scorer(tokenizer(self.references)), self.texts, self.references
        )
        return np.array(found, np.float32)

    def bleu(self, counts: NDArray[np.float32]) -> NDArray[np.float64]:
        """BLEU of draws of the sentences; ``counts`` ``(draws, sentences)`` says how often each is
        in a draw.
        """
        metric = scorer(tokenizer(self.references))
        return np.array(
            [
                _adapters.score_of_statistics(metric, sums)
                for sums in (counts @ self.statistics).tolist()
            ]
        )


def read(folder: Path) -> dict[str, Translations]:
    """By the name of the test set; of a set in both formats the ``.jsonl``. Predictions that are no
    translations are left out.

    Raises:
        BadData: a file that cannot be read.
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
                    raise ValueError("a row is cut off")
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
    """sacreBLEU's tokenizer by the script that references are written in, as the task has it by
    language.
    """
    text = "".join(references)
    letters = len(re.findall(r"\w", text))
    return next(
        (name for name, script in SCRIPTS.items() if len(re.findall(script, text)) > letters / 5),
        "13a",
    )


@cache
def scorer(tokenize: str) -> Any:
    """The metric, as the task computes it."""
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(tokenize=tokenize)
