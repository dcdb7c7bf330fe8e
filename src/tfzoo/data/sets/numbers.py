"""Number words, translated: a data set that is made up on the spot."""

from __future__ import annotations

from collections import Counter
from functools import cache
from hashlib import blake2b
from random import Random
from typing import Literal

from tfzoo.data.chinese import chinese_number
from tfzoo.errors import BadOption
from tfzoo.registry import register

Numbers = tuple[int, ...]

SMALL = 100
"""Every number below this occurs in training."""

PERCENT = {"val": range(0, 10), "test": range(10, 20), "train": range(20, 100)}
"""A sentence of one or two numbers falls on one of 100 places, and so belongs to one split for
good.
"""


@register("dataset", "numbers")
class NumberWords:
    """English number words to German or Chinese: ``two plus forty -> zwei plus vierzig`` or
    ``二加四十``.

    A sentence is one or two numbers, equally often, joined by "plus"; each is drawn from 0 to
    ``10**n - 1``, and n from 1 to 6, equally often. English and German are written as ``num2words``
    writes them, Chinese as :func:`tfzoo.data.chinese.chinese_number` does, with 加 and no spaces.
    All follows from the seed, and the size of one split changes no other but ``long``.

    ``train``, ``val``, ``test``, ``long`` are pairs in each split. No sentence is in two splits,
    and every number below 100 occurs in training. Training repeats short sentences as often as they
    are drawn; ``val`` and ``test`` hold none twice. ``long`` has three to
    five numbers, equally often, drawn from those that training shows: known pieces, longer than any
    training sentence.

    Raises:
        BadOption: ``train`` under 100, another size under 1.
    """

    def __init__(
        self,
        *,
        language: Literal["de", "zh"] = "de",
        train: int = 20_000,
        val: int = 1000,
        test: int = 1000,
        long: int = 500,
    ) -> None:
        if train < SMALL:
            raise BadOption(
                f"dataset 'numbers', option 'train': {train} is under {SMALL}, and every number below {SMALL} must occur"
            )
        for split, size in {"val": val, "test": test, "long": long}.items():
            if size < 1:
                raise BadOption(f"dataset 'numbers', option {split!r}: {size} is under 1")
        self.language = language
        self.sizes = {"train": train, "val": val, "test": test, "long": long}

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target: ``("en", "de")`` or ``("en", "zh")``."""
        return "en", self.language

    def splits(self, seed: int) -> dict[str, list[tuple[str, str]]]:
        """Pairs of sentences by split: train, val, test, long."""
        drawn = {split: draw(split, self.sizes[split], seed) for split in ("train", "val", "test")}
        show_small_numbers(drawn["train"], seed)
        drawn["long"] = draw_long(drawn["train"], self.sizes["long"], seed)
        return {
            split: [(english(s), self._target(s)) for s in sentences]
            for split, sentences in drawn.items()
        }

    def _target(self, sentence: Numbers) -> str:
        if self.language == "zh":
            return "加".join(map(chinese_number, sentence))
        return " plus ".join(spelt(number, "de") for number in sentence)


def english(sentence: Numbers) -> str:
    """A sentence's source."""
    return " plus ".join(spelt(number, "en") for number in sentence)


JOINTS = {"en": (" and ", ", "), "de": ("", "")}
"""What num2words writes between thousands and a rest below a hundred, or from a hundred on."""


@cache
def spelt(number: int, language: str) -> str:
    """A number below a million as num2words writes it, which takes it 0.15 ms: thousands and rest
    are asked for and remembered.
    """
    from num2words import num2words

    rest = number % 1000
    if rest in (number, 0):
        return str(num2words(number, lang=language))
    return spelt(number - rest, language) + JOINTS[language][rest >= 100] + spelt(rest, language)


def belongs(sentence: Numbers, split: str, seed: int) -> bool:
    """Whether a sentence is one of this split's. It depends on the sentence and the seed alone."""
    digest = blake2b(f"{seed} {sentence}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % 100 in PERCENT[split]


def draw(split: str, size: int, seed: int) -> list[Numbers]:
    """``size`` sentences of one or two numbers that belong to a split; distinct ones but for
    training.
    """
    random = Random(f"numbers {split} {seed}")
    sentences: list[Numbers] = []
    seen: set[Numbers] = set()
    while len(sentences) < size:
        bounds = [10 ** random.randint(1, 6) for _ in range(random.randint(1, 2))]
        for _ in range(
            100
        ):  # again within these bounds, so that they stay equally often; but ten digits can be used up
            sentence = tuple(random.randrange(bound) for bound in bounds)
            if belongs(sentence, split, seed) and sentence not in seen:
                sentences.append(sentence)
                if split != "train":
                    seen.add(sentence)
                break
    return sentences


def show_small_numbers(train: list[Numbers], seed: int) -> None:
    """Put each number below 100 that chance left out, as it may in small sets, in place of a
    sentence that nothing needs.
    """
    random = Random(f"numbers small {seed}")
    shown = Counter(number for sentence in train for number in sentence)
    for missing in range(SMALL):
        if shown[missing]:
            continue
        place = next(
            i for i, s in enumerate(train) if all(n >= SMALL or shown[n] > s.count(n) for n in s)
        )
        sentence: Numbers = (missing,)
        while not belongs(sentence, "train", seed):
            sentence = (missing, random.randrange(10**6))
        shown.subtract(train[place])
        shown.update(sentence)
        train[place] = sentence


def draw_long(train: list[Numbers], size: int, seed: int) -> list[Numbers]:
    """Distinct sentences of three to five numbers, each as likely as it is in training."""
    random = Random(f"numbers long {seed}")
    pieces = [number for sentence in train for number in sentence]
    sentences: dict[Numbers, None] = {}
    while len(sentences) < size:
        sentences[tuple(random.choices(pieces, k=random.randint(3, 5)))] = None
    return list(sentences)
