"""Would a difference in BLEU hold on other sentences? Paired bootstrap on one test set (Koehn
2004), over the runs of a sweep.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfzoo.errors import BadData
from tfzoo.sweep import effects
from tfzoo.sweep.effects import Axes
from tfzoo.sweep.paired import ALPHA, holm
from tfzoo.sweep.scores import Setting, number, whole
from tfzoo.sweep.sentences import chance, measured
from tfzoo.sweep.translations import Translations, read

DRAWS = 2000
OFF = 0.05
"""By how much BLEU of the translations may differ from the run's own score before it is said."""

Sets = dict[tuple[Setting, str], dict[int, Translations]]
"""By cell and test set, then by seed."""


@dataclass(frozen=True)
class Resampled:
    """A cell's BLEU on one test set less the baseline's, both the mean of the seeds that both have,
    by other sentences: not other seeds.
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
    """Every cell on every test set of which there are translations, and what has none."""

    compared: list[Resampled]
    notes: list[str]


def bootstrap(
    rows: Iterable[Mapping[str, Any]], axes: Axes, baseline: Mapping[str, str]
) -> Bootstrap:
    """Compare the translations that ``tfzoo predict`` wrote into the runs' folders with those of
    the baseline's runs, seed by seed.

    Args:
        rows: of ``runs.csv``; ``run_folder`` says where ``predictions/<test set>.jsonl`` or
            ``.tsv`` may lie.
        axes, baseline: as of :func:`tfzoo.sweep.judge.judge`.
    """
    base = effects.baseline(axes, baseline)
    sets, notes = collect(rows, axes)
    found = []
    for (setting, name), own in sets.items():
        partners = sets.get((base, name), {})
        seeds = comparable(own, partners)
        if setting == base:
            continue
        if not seeds:
            notes.append(
                f"{effects.name(axes, setting, base)}, {name}: no seed has translations of the same sentences here and of the baseline"
            )
            continue
        alone = [
            f"seed {seed} is left out: no partner of the same sentences"
            for seed in sorted({*own, *partners} - {*seeds})
        ]
        found.append(
            compare(
                dict(zip(axes, setting, strict=True)),
                name,
                [(own[seed], partners[seed]) for seed in seeds],
                alone,
            )
        )
    corrected = holm([one.p for one in found]).tolist()
    return Bootstrap(
        [said(one, p, len(found), axes, base) for one, p in zip(found, corrected, strict=True)],
        notes,
    )


def collect(rows: Iterable[Mapping[str, Any]], axes: Axes) -> tuple[Sets, list[str]]:
    """The translations of all finished runs, and what is to be said of them."""
    sets: Sets = defaultdict(dict)
    without, notes = 0, []
    for row in rows:
        seed, folder = whole(row.get("seed")), row.get("run_folder")
        if seed is None or not folder or row.get("status", "completed") != "completed":
            continue
        try:
            found = read(Path(str(folder)))
        except BadData as error:
            notes.append(str(error))
            continue
        without += not found
        for name, translations in found.items():
            sets[tuple(str(row.get(axis, "")) for axis in axes), name][seed] = translations
            own, now = (
                number(row.get(f"test/{name}/bleu", row.get("test/bleu"))),
                float(translations.bleu(all_of(translations))[0]),
            )
            if own is not None and abs(own - now) > OFF:
                notes.append(
                    f"{folder}: its translations of {name} have BLEU {now:.2f}, its score is {own:.2f}: decoded in another way?"
                )
    if without:
        notes.append(
            f"{without} finished run{'s have' if without > 1 else ' has'} no translations; tfzoo predict RUN writes them"
        )
    return sets, notes


def comparable(own: Mapping[int, Translations], partners: Mapping[int, Translations]) -> list[int]:
    """The seeds of both sides, all on the sentences of the first."""
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
) -> Resampled:
    """The mean difference over pairs of runs, on the test set as it is and on draws of its
    sentences, the same for all.
    """
    once, drawn = all_of(pairs[0][0]), draws(len(pairs[0][0].texts))
    bleu = float(np.mean([own.bleu(once) for own, _ in pairs]))
    difference = float(np.mean([own.bleu(once) - other.bleu(once) for own, other in pairs]))
    differences = np.mean([own.bleu(drawn) - other.bleu(drawn) for own, other in pairs], axis=0)
    low, high = np.quantile(differences, [ALPHA / 2, 1 - ALPHA / 2]).tolist()
    # Draws scatter around what was seen as what is seen would around 0 if nothing mattered (Noreen
    # 1989); a draw may be as it is.
    beyond = np.abs(differences - differences.mean()) >= abs(difference)
    p = (1 + int(beyond.sum())) / (1 + DRAWS)
    return Resampled(
        labels, test_set, len(pairs), once.shape[1], bleu, difference, low, high, p, p, "", notes
    )


def said(
    one: Resampled, corrected: float, comparisons: int, axes: Axes, base: Setting
) -> Resampled:
    """With the p corrected for all comparisons, and the sentence."""
    setting = tuple(one.labels.values())
    verdict = (
        "not distinguishable from"
        if corrected >= ALPHA
        else "better than"
        if one.difference > 0
        else "worse than"
    )
    text = (
        f"{effects.name(axes, setting, base)}: {verdict} {effects.against(setting, base)} on other sentences like the {one.sentences:,} of "
        f"{one.test_set}: BLEU {one.bleu:.1f}, difference {measured(one.difference, one.low, one.high)}, {chance(corrected, comparisons)}"
    )
    return replace(one, p_corrected=corrected, sentence=text)


def all_of(translations: Translations) -> NDArray[np.float32]:
    """Each sentence once."""
    return np.ones((1, len(translations.texts)), np.float32)


@cache
def draws(sentences: int) -> NDArray[np.float32]:
    """How often each sentence is in each draw, ``(draws, sentences)``; the same whenever asked."""
    chances = np.full(sentences, 1 / sentences)
    return np.random.default_rng(0).multinomial(sentences, chances, DRAWS).astype(np.float32)
