"""The numbers data set: disjoint splits, the stated distribution, the words of num2words."""

import random
from collections import Counter

import pytest
from num2words import num2words

from tfzoo.base.registry import create
from tfzoo.data.sets import numbers
from tfzoo.data.sets.numbers import chinese_number


@pytest.mark.parametrize("size", [100, 20_000])
def test_long_sentences_are_three_to_five_pieces_that_training_showed(size):
    made = create("dataset", {"name": "numbers", "language": "zh", "train": size}).splits(seed=1)
    known = {piece for source, _ in made["train"] for piece in source.split(" plus ")}
    pieces = [source.split(" plus ") for source, _ in made["long"]]
    assert Counter(map(len, pieces)).keys() == {3, 4, 5}
    assert {piece for sentence in pieces for piece in sentence} <= known


SPELT = {"en": numbers.english_number, "de": numbers.german_number}


@pytest.mark.parametrize(("language", "spelt"), SPELT.items())
def test_numbers_are_spelt_as_num2words_spells_them(language, spelt):
    near = (0, 20, 100, 1000, 1100, 2000, 10_000, 21_000, 100_000, 101_000, 999_000)
    edges = [b + d for b in near for d in (0, 1, 2, 10, 21, 99, 100, 101, 999)]
    some = random.Random(0).sample(range(10**6), 1000)
    for number in (n for n in edges + some if n < 10**6):
        assert spelt(number) == num2words(number, lang=language)


def test_both_sides_say_the_same_numbers():
    made = create("dataset", {"name": "numbers", "train": 100, "val": 20, "test": 20, "long": 20})
    words = {num2words(n): num2words(n, lang="de") for n in range(100)}
    for source, target in made.splits(seed=0)["train"]:
        for english, german in zip(source.split(" plus "), target.split(" plus "), strict=True):
            assert words.get(english, german) == german
    assert made.languages == ("en", "de")


CHINESE = {0: "零", 10: "十", 20: "二十", 101: "一百零一", 110: "一百一十", 1010: "一千零一十"}
CHINESE |= {2002: "二千零二", 10_010: "一万零一十", 20_305: "二万零三百零五", 101_000: "十万一千"}
CHINESE |= {10_100: "一万零一百", 100_100: "十万零一百", 305_060: "三十万五千零六十"}


def test_chinese_numerals_are_the_known_ones():
    assert {number: chinese_number(number) for number in CHINESE} == CHINESE
    assert len({chinese_number(n) for n in range(200_000)}) == 200_000
