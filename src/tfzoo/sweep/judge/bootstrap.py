"""Paired bootstrap over the sentences of a test set (Koehn 2004): whether a difference in BLEU
would hold on other sentences. The translations are those that ``tfzoo predict`` wrote into the
folders of runs.
"""

from __future__ import annotations

import csv
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfzoo.base import adapters
from tfzoo.errors import BadData
from tfzoo.sweep.judge import effects
from tfzoo.sweep.judge.effects import Axes
from tfzoo.sweep.judge.paired import ALPHA, correct, selected_level
from tfzoo.sweep.judge.scores_by_seed import Setting, parse_number, parse_seed
from tfzoo.sweep.judge.sentences import (
    format_corrected,
    format_estimate,
    hint,
    uncorrected_interval,
)

DRAWS = 2000
BLEU_TOLERANCE = 0.05
"""A larger difference between the BLEU of the translations and the run's own score is noted."""

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


Sets = dict[tuple[Setting, str], dict[int, Translations]]
"""Translations by cell and test set, then by seed."""


@dataclass(frozen=True)
class Resampled:
    """The mean difference of a cell's BLEU to the baseline's on one test set, over the seeds that
    both have; interval and p are over sentences, not over seeds.
    """

    labels: dict[str, str]
    test_set: str
    seeds: int
    sentences: int
    bleu: float
    difference: float
    low: float
    high: float
    p: float
    p_corrected: float
    sentence: str
    notes: list[str]


@dataclass(frozen=True)
class Bootstrap:
    """The comparisons of all cells on all test sets that have translations, and notes."""

    compared: list[Resampled]
    notes: list[str]


def bootstrap(
    rows: Iterable[Mapping[str, Any]], axes: Axes, baseline: Mapping[str, str]
) -> Bootstrap:
    """Compare the translations that ``tfzoo predict`` wrote into the runs' folders with those of
    the baseline's runs, seed by seed.

    Args:
        rows: of ``runs.csv``; translations are in ``predictions/<test set>.jsonl`` or ``.tsv``
            under ``run_folder``.
        axes, baseline: as in :func:`tfzoo.sweep.judge.verdicts.judge`.
    """
    rows = list(rows)
    base = effects.baseline(axes, baseline)
    sets, notes = collect(rows, axes)
    pruned = {row.get("cell") for row in rows if row.get("status") == "pruned"}
    untested = len(pruned) * len({name for _, name in sets})
    common = {
        (setting, name): comparable(own, sets.get((base, name), {}))
        for (setting, name), own in sets.items()
        if setting != base
    }
    alpha = selected_level(sum(bool(seeds) for seeds in common.values()), untested)
    found = []
    for (setting, name), seeds in common.items():
        own, partners = sets[setting, name], sets.get((base, name), {})
        if not seeds:
            notes.append(
                f"{effects.name(axes, setting, base)}, {name}: no seed has translations of the "
                "same sentences by this cell and by the baseline"
            )
            continue
        alone = [
            f"seed {seed} is omitted: only one side translated these sentences"
            for seed in sorted({*own, *partners} - {*seeds})
        ]
        found.append(
            compare(
                dict(zip(axes, setting, strict=True)),
                name,
                [(own[seed], partners[seed]) for seed in seeds],
                alone,
                alpha,
            )
        )
    corrected, count = correct([one.p for one in found], untested), len(found) + untested
    return Bootstrap(
        [with_sentence(one, p, count, axes, base) for one, p in zip(found, corrected, strict=True)],
        notes,
    )


def collect(rows: Iterable[Mapping[str, Any]], axes: Axes) -> tuple[Sets, list[str]]:
    """The translations of all completed runs, and notes."""
    sets: Sets = defaultdict(dict)
    without, notes = 0, []
    for row in rows:
        seed, folder = parse_seed(row.get("seed")), row.get("run_folder")
        if seed is None or not folder or row.get("status", "completed") != "completed":
            continue
        try:
            found = read_translations(Path(str(folder)))
        except BadData as error:
            notes.append(str(error))
            continue
        without += not found
        for name, translations in found.items():
            sets[tuple(str(row.get(axis, "")) for axis in axes), name][seed] = translations
            own, now = (
                parse_number(row.get(f"test/{name}/bleu", row.get("test/bleu"))),
                float(translations.bleu(all_of(translations))[0]),
            )
            if own is not None and abs(own - now) > BLEU_TOLERANCE:
                notes.append(
                    f"{folder}: its translations of {name} have BLEU {now:.2f}, its score is "
                    f"{own:.2f}: were they decoded with other settings?"
                )
    if without:
        notes.append(
            f"{without} completed run{'s have' if without > 1 else ' has'} no translations; "
            "tfzoo predict RUN writes them"
        )
    return sets, notes


def comparable(own: Mapping[int, Translations], partners: Mapping[int, Translations]) -> list[int]:
    """The seeds for which both sides translated the same sentences, equal for all seeds."""
    both = [
        seed
        for seed in sorted(own.keys() & partners.keys())
        if own[seed].references == partners[seed].references
    ]
    return [seed for seed in both if own[seed].references == own[both[0]].references]


def compare(
    labels: dict[str, str],
    test_set: str,
    pairs: list[tuple[Translations, Translations]],
    notes: list[str],
    alpha: float = ALPHA,
) -> Resampled:
    """The mean difference over pairs of runs, on the test set and on bootstrap draws of its
    sentences. All pairs use the same draws.
    """
    once, drawn = all_of(pairs[0][0]), draws(len(pairs[0][0].texts))
    bleu = float(np.mean([own.bleu(once) for own, _ in pairs]))
    difference = float(np.mean([own.bleu(once) - other.bleu(once) for own, other in pairs]))
    differences = np.mean([own.bleu(drawn) - other.bleu(drawn) for own, other in pairs], axis=0)
    low, high = np.quantile(differences, [alpha / 2, 1 - alpha / 2]).tolist()
    # Noreen (1989): the draws, shifted to mean 0, are the distribution under the null hypothesis.
    beyond = np.abs(differences - differences.mean()) >= abs(difference)
    p = (1 + int(beyond.sum())) / (1 + DRAWS)
    return Resampled(
        labels, test_set, len(pairs), once.shape[1], bleu, difference, low, high, p, p, "", notes
    )


def with_sentence(
    one: Resampled, corrected: float, comparisons: int, axes: Axes, base: Setting
) -> Resampled:
    """A comparison with its corrected p and its sentence."""
    setting = tuple(one.labels.values())
    verdict = (
        "not yet known whether it differs from"
        if corrected >= ALPHA
        else "better than"
        if one.difference > 0
        else "worse than"
    )
    estimate = format_estimate(one.difference, one.low, one.high)
    text = (
        f"{effects.name(axes, setting, base)}: {hint(corrected)}{verdict} "
        f"{effects.baseline_name(setting, base)} "
        f"by paired bootstrap over the {one.sentences:,} sentences of {one.test_set}: "
        f"BLEU {one.bleu:.1f}, difference {estimate}, {format_corrected(corrected, comparisons)}"
    )
    if corrected >= ALPHA:
        text += uncorrected_interval(one.low, one.high, one.p)
    return replace(one, p_corrected=corrected, sentence=text)


def all_of(translations: Translations) -> NDArray[np.float32]:
    """Counts with each sentence once."""
    return np.ones((1, len(translations.texts)), np.float32)


@cache
def draws(sentences: int) -> NDArray[np.float32]:
    """How often each sentence occurs in each draw, ``(draws, sentences)``; the seed is fixed."""
    chances = np.full(sentences, 1 / sentences)
    return np.random.default_rng(0).multinomial(sentences, chances, DRAWS).astype(np.float32)


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
