"""Number words to translate: a generated data set."""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from random import Random
from typing import Literal

from tfzoo.base.registry import register
from tfzoo.data.sets import Drawn

Sentence = tuple[int, ...]

PERCENT = {"val": range(0, 10), "test": range(10, 20), "train": range(20, 100)}
"""A hash assigns each sentence of one or two numbers to one of 100 buckets, and so to a split."""


@register("dataset", "numbers")
@dataclass(kw_only=True)
class NumberWords(Drawn):
    """English number words to German or Chinese: ``two plus forty -> zwei plus vierzig``.

    A sentence is one or two numbers (with equal probability), joined by "plus". Each number is
    uniform from 0 to ``10**n - 1``, where n is uniform from 1 to 6. English and German words are
    those of the library num2words, Chinese ones those of :func:`chinese_number`, joined by 加
    without spaces. Everything is a function of the seed, and the size of a split changes no
    other split except ``long``.

    ``train``, ``val``, ``test``, ``long`` are the sizes of the splits. No sentence is in two of
    them. Training repeats short sentences as often as they are sampled; those of ``val`` and
    ``test`` are distinct. A sentence of ``long`` is three to five numbers from training (with equal
    probability): longer than any sentence in training.

    Raises:
        BadOption: ``train`` is under 100, or another size under 1.
    """

    language: Literal["de", "zh"] = "de"
    long: int = 500

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check("train", ge=100)
        self.check("long")
        self.sizes["long"] = self.long
        self.languages = "en", self.language

    def splits(self, seed: int) -> dict[str, list[tuple[str, str]]]:
        """Pairs of sentences by split: train, val, test, long."""
        drawn = ("train", "val", "test")
        splits = {split: sample(split, self.sizes[split], seed) for split in drawn}
        target, plus = WORDS[self.language]
        splits["long"] = sample_long(splits["train"], self.long, seed)
        return {
            split: [
                (" plus ".join(map(english_number, s)), plus.join(map(target, s))) for s in found
            ]
            for split, found in splits.items()
        }


def below_100(words: str, joined: Callable[[str, str], str]) -> list[str]:
    """The numbers below 100, from the words of those up to 20 and of the tens."""
    words_of = words.split(" ")
    ones, tens = words_of[:20], words_of[20:]
    return ones + [
        joined(ten, one) if at else ten for ten in tens for at, one in enumerate(ones[:10])
    ]


ENGLISH = below_100(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety",
    lambda ten, one: f"{ten}-{one}",
)
GERMAN = below_100(
    "null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn "
    "sechzehn siebzehn achtzehn neunzehn zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig "
    "neunzig",
    lambda ten, one: f"{one}und{ten}",
)


def english_number(number: int) -> str:
    """A number below a million in the words of the library num2words: ``1_121 -> one thousand, one
    hundred and twenty-one``.
    """
    for size, name in ((1000, " thousand"), (100, " hundred")):
        count, rest = divmod(number, size)
        if count:
            joint = ", " if rest >= 100 else " and "
            return english_number(count) + name + (joint + english_number(rest) if rest else "")
    return ENGLISH[number]


def german_number(number: int) -> str:
    """A number below a million in the words of the library num2words: ``1_121 ->
    eintausendeinhunderteinundzwanzig``.
    """
    for size, name in ((1000, "tausend"), (100, "hundert")):
        count, rest = divmod(number, size)
        if count:
            first = "ein" if count == 1 else german_number(count)
            return first + name + (german_number(rest) if rest else "")
    return "eins" if number == 1 else GERMAN[number]


def belongs(sentence: Sentence, split: str, seed: int) -> bool:
    """Whether a sentence belongs to a split: a function of the sentence and the seed."""
    digest = blake2b(f"{seed} {sentence}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % 100 in PERCENT[split]


def sample(split: str, size: int, seed: int) -> list[Sentence]:
    """``size`` sentences of one or two numbers that belong to a split; distinct, except in
    training.
    """
    random = Random(f"numbers {split} {seed}")
    sentences: list[Sentence] = []
    seen: set[Sentence] = set()
    while len(sentences) < size:
        bounds = [10 ** random.randint(1, 6) for _ in range(random.randint(1, 2))]
        # Keep the bounds when a sentence is rejected, so that all are equally frequent. With small
        # bounds all sentences can be used up: then other bounds are tried.
        for _ in range(100):
            sentence = tuple(random.randrange(bound) for bound in bounds)
            if belongs(sentence, split, seed) and sentence not in seen:
                sentences.append(sentence)
                if split != "train":
                    seen.add(sentence)
                break
    return sentences


def sample_long(train: list[Sentence], size: int, seed: int) -> list[Sentence]:
    """Distinct sentences of three to five numbers, each as probable as it is in training."""
    random = Random(f"numbers long {seed}")
    numbers = [number for sentence in train for number in sentence]
    sentences: dict[Sentence, None] = {}
    while len(sentences) < size:
        sentences[tuple(random.choices(numbers, k=random.randint(3, 5)))] = None
    return list(sentences)


DIGITS = "零一二三四五六七八九"
SIZES = ((10**4, "万"), (1000, "千"), (100, "百"), (10, "十"))


def chinese_number(number: int) -> str:
    """A number below a million in standard Chinese numerals: ``10_010 -> 一万零一十``.

    - One 零 stands for any run of zeros between other digits; zeros at the end of a level of four
      digits are not written: ``101_000 -> 十万一千``, ``100_100 -> 十万零一百``.
    - 10 to 19 are 十 to 十九 at the beginning of the number (also 十万), 一十 to 一十九 inside it:
      ``110 -> 一百一十``.
    - Two is always 二, the written standard (``200 -> 二百``, ``20_000 -> 二万``); spoken Chinese
      has 两 before 百, 千, 万.
    """
    text = inner_number(number)
    return text[1:] if text.startswith("一十") else text


def inner_number(number: int) -> str:
    """The same inside a number, with 一十 for ten."""
    for size, name in SIZES:
        count, rest = divmod(number, size)
        if count:
            gap = "零" if 0 < rest < size // 10 else ""
            return inner_number(count) + name + (gap + inner_number(rest) if rest else "")
    return DIGITS[number]


WORDS = {"de": (german_number, " plus "), "zh": (chinese_number, "加")}
"""By language, the words of a number and what stands between two."""
